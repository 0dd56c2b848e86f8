# explain on one screen, for who has not read the design: which rank has which stage, what a step takes and idles, in 40 lines
# of at most 100 columns; tables fit 90. A stage is never called a chunk, one of something never in the plural.
. "$ROOT/tests/cli/lib.sh"
screen() { # OPTION...: what follows are the words that must be there, a line each
    "$STRETTO" explain --model resnet8 --threads 1 --batch 64 "$@" >out 2>err || say "$*: exit $?: $(cat err)"
    [ "$(wc -l <out)" -le 40 ] || say "$*: more than a screen: $(wc -l <out) lines"
    awk 'length > 100 { bad = 1 } END { exit bad }' out || say "$*: a line of more than 100 columns: $(awk 'length > 100' out)"
    grep '^  ' out | awk 'length > 90 && !/^           / { bad = 1 } END { exit bad }' || say "$*: a table of more than 90 columns: $(cat out)"
    grep -qi chunk out && say "$*: a chunk: $(grep -i chunk out)"
    grep -E '(^| )1 [a-z-]+s( |,|;|$)' out | grep -v ' 1 replicas-' && say "$*: one in the plural: $(cat out)"
    while read -r words; do
        tr -s ' \n' '  ' <out | grep -qF -- "$words" || say "$*: no '$words' in: $(cat out)"
    done
}
screen <<'END'
77,754 parameters (304 KiB) in 29 tensors
240 steps with sgd: lr 0.1, cosine after a warm-up of 12 steps
strategy single - one device has the whole model
64 = 1 replica x 1 micro-batch x 64 samples; the last step of an epoch has 28
END
screen --steps 1 --warmup 1 --data synthetic:count=64,test_count=1 <<'END'
64 samples to train on, 1 to test on, 1 step an epoch
1 step with sgd: lr 0.1, cosine after a warm-up of 1 step
END
screen --model vit-tiny --data synthetic:size=32,count=64,test_count=8 <<'END'
152 tensors; 64 patches of 4x4 pixels, for images of 32x32 (--patch chooses others)
END
screen --strategy ddp -n 2 <<'END'
each runs the whole model on its part of the batch
traffic replicas sum 392 KiB of gradients a step (--sync allreduce) in
forecast of a step:
with a bubble of
END
screen -n 2 --zero-stage 2 <<'END'
strategy ddp, with --zero-stage 2: ZeRO-2 - data parallel
END
screen --strategy zero3 -n 4 <<'END'
strategy zero3 - data parallel, each replica
ZeRO-3: each of 4 replicas holds 1/4 of the optimizer state, gradients, parameters
END
screen --strategy 1f1b --stages 2 --micro-batches 4 <<'END'
strategy 1f1b - pipeline: forward and backward in turn
2 = 2 stages x 1 replica: each rank has one stage of the model
stage rank from
sent on: bytes of a micro-batch to the next stage; back: of gradients from there
forecast of a step:
peaks predicted, of the ranks of a pipeline: rank 0
a step from stage to stage
END
screen --strategy 1f1b --stages 2 <<'END'
stages take turns with one: --micro-batches lets them overlap
END
screen --strategy 1f1b <<'END'
ranks 1: nothing is spread; -n, or --stages and --replicas, give more
END
screen --schedule zbv --stages 2 --micro-batches 4 <<'END'
strategy ddp, with --schedule zbv - two stages a rank in a V
END
screen --schedule eager-1f1b --stages 2 --micro-batches 4 <<'END'
strategy ddp, with --schedule eager-1f1b - 1f1b with a longer warm-up
END
screen --strategy interleaved --stages 2 --replicas 2 --micro-batches 4 <<'END'
4 = 2 in a pipeline x 2 replicas: each rank has 2 of the model's 4 stages
stages of replica 0; the others have the same
replicas sum the gradients of each stage (--sync allreduce)
END
screen --strategy 1f1b --stages 2 --replicas 2 --zero-stage 2 --micro-batches 4 --recompute always --sync-bn <<'END'
ZeRO-2: each of 2 replicas holds 1/2 of the optimizer state
4 of 4 forwards of a rank run again
batch norm over 2 replicas
END
screen --strategy rpc --stages 2 --micro-batches 4 <<'END'
3 = a driver + 2 stages: rank 0 drives
predicted peak of rank 2:
peaks predicted, of the ranks of a pipeline: rank 1
END
screen --strategy auto --stages 2 --micro-batches 4 <<'END'
that fits, by the costs of stages and messages
END
screen --strategy ddp -n 2 --schedule gpipe --stages 2 <<'END'
, with --schedule gpipe - all forwards, then all backwards
END
# Which rank has which stage, and its slots: 1F1B keeps 2 and 1, a V comes back to rank 0.
column() { awk -v title="$1" '$1 == "stage" { for (i = 1; i <= NF; i++) if ($i == title) at = i } /balance:/ { at = 0 } at && $1 ~ /^[0-9]+$/ { printf "%s ", $(title == "slots" ? NF - n($0) : at) } function n(line) { return line ~ /- +-$/ ? 2 : 4 }' out; }
"$STRETTO" explain --model resnet8 --threads 1 --strategy 1f1b --stages 2 --micro-batches 4 >out
[ "$(column rank)" = "0 1 " ] && [ "$(column slots)" = "2 1 " ] || say "1f1b: ranks $(column rank), slots $(column slots): $(cat out)"
"$STRETTO" explain --model resnet8 --threads 1 --strategy zbv --stages 2 --micro-batches 4 >out
[ "$(column rank)" = "0 1 1 0 " ] || say "zbv: ranks $(column rank): $(cat out)"
# The forecast is a row of the screen; its keys in JSON come only where they are asked for.
"$STRETTO" explain --model mlp --json | grep -q '"forecast"' && say "JSON has a forecast that nobody asked for"
exit $failed
