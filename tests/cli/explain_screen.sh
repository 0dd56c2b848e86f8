# explain on one screen, for who has not read the design: which rank has which stage, what a step takes and idles, in lines of
# at most 100 columns. A stage is never called a chunk.
set -u
failed=0
say() { echo "$*"; failed=1; }
screen() { # OPTION...: what follows are the words that must be there, a line each
    "$STRETTO" explain --model resnet8 --threads 1 --batch 64 "$@" >out 2>err || say "$*: exit $?: $(cat err)"
    [ "$(wc -l <out)" -le 28 ] || say "$*: more than a screen: $(wc -l <out) lines"
    awk 'length > 100 { bad = 1 } END { exit bad }' out || say "$*: a line of more than 100 columns: $(awk 'length > 100' out)"
    grep -qi chunk out && say "$*: a chunk: $(grep -i chunk out)"
    while read -r words; do
        tr -s ' \n' '  ' <out | grep -qF -- "$words" || say "$*: no '$words' in: $(cat out)"
    done
}
screen --strategy ddp -n 2 <<'END'
each has the whole model
traffic sync allreduce of
forecast of a step
with a bubble of
END
screen --strategy 1f1b --stages 2 --micro-batches 4 <<'END'
2 = 2 stages x 1 replica, strategy 1f1b: each rank has one stage of the model
stage rank from
forecast of a step
peaks predicted, along a pipeline: rank 0
a step from stage to stage
END
screen --strategy interleaved --stages 2 --replicas 2 --micro-batches 4 <<'END'
4 = 2 in a pipeline x 2 replicas, strategy interleaved: each rank has 2 of the model's 4 stages
stages of replica 0; the others have the same
replicas: sync allreduce
END
# Which rank has which stage, and its slots: 1F1B keeps 2 and 1, a V comes back to rank 0.
column() { awk -v title="$1" '$1 == "stage" { for (i = 1; i <= NF; i++) if ($i == title) at = i } at && $1 ~ /^[0-9]+$/ { printf "%s ", $(title == "slots" ? NF - n($0) : at) } function n(line) { return line ~ /- +-$/ ? 2 : 4 }' out; }
"$STRETTO" explain --model resnet8 --threads 1 --strategy 1f1b --stages 2 --micro-batches 4 >out
[ "$(column rank)" = "0 1 " ] && [ "$(column slots)" = "2 1 " ] || say "1f1b: ranks $(column rank), slots $(column slots): $(cat out)"
"$STRETTO" explain --model resnet8 --threads 1 --strategy zbv --stages 2 --micro-batches 4 >out
[ "$(column rank)" = "0 1 1 0 " ] || say "zbv: ranks $(column rank): $(cat out)"
# The forecast is a row of the screen; its keys in JSON come only where they are asked for.
"$STRETTO" explain --model mlp --json | grep -q '"forecast"' && say "JSON has a forecast that nobody asked for"
exit $failed
