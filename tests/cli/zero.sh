# --strategy zero1, zero2, zero3: the parameters of one device, evaluated, saved, and resumed under another strategy; what is
# refused, and what is simulated.
. "$ROOT/tests/cli/lib.sh"
model="--model mlp --device ref --threads 1 --data synthetic:count=72,test_count=20,size=8,channels=1"
run="$model --batch 24 --steps 6 --save-every 3 --eval-every 3 --lr-policy const --warmup 0 --bucket-size 8KiB --quiet"
field() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$1/summary.json"; } # RUN KEY
refused() { # WORDS OPTION...
    words=$1
    shift
    "$STRETTO" train "$@" --out refused >out 2>err
    [ $? = 2 ] || say "$*: not refused"
    grep -q -e "$words" err || say "$*: $(cat err)"
}

# shellcheck disable=SC2086
{
    "$STRETTO" train $run --deal 2x2 --out one || say "one device: exit $?"
    "$STRETTO" train $run --deal 2x2 --sum replicas-first --out first || say "one device, replicas-first: exit $?"
    for stage in 1 2 3; do
        "$STRETTO" train $run --strategy zero$stage -n 2 --micro-batches 2 --out zero$stage || say "zero$stage: exit $?"
        [ "$(field zero$stage param_hash)" = "$(field one param_hash)" ] || say "zero$stage: other parameters"
        [ "$(field zero$stage acc1)" = "$(field one acc1)" ] || say "zero$stage: another accuracy"
        rm -rf zero$stage/checkpoints/step-00000006 zero$stage/checkpoints/best zero$stage/summary.json
    done
    "$STRETTO" train $run --resume --out zero1 --strategy zero3 || say "zero1 as zero3: exit $?"
    "$STRETTO" train $run --resume --out zero2 --strategy ddp || say "zero2 as ddp: exit $?"
    "$STRETTO" train $run --resume --out zero3 --strategy single -n 1 --deal 2x2 || say "zero3 as single: exit $?"
    for stage in 1 2 3; do
        [ "$(field zero$stage param_hash)" = "$(field one param_hash)" ] || say "zero$stage, resumed: other parameters"
    done

    "$STRETTO" train $run --strategy zero3 --zero-accumulate scatter -n 2 --micro-batches 2 --out scatter || say "scatter: exit $?"
    [ "$(field scatter param_hash)" = "$(field first param_hash)" ] || say "scatter: other parameters"
    rm -rf scatter/checkpoints/step-00000006 scatter/checkpoints/best scatter/summary.json
    "$STRETTO" train $run --resume --out scatter --strategy single -n 1 --deal 2x2 --zero-accumulate local ||
        say "scatter as single: exit $?"
    [ "$(field scatter param_hash)" = "$(field first param_hash)" ] || say "scatter, resumed: other parameters"

    refused 'has no effect with --sync allreduce' $model --strategy ddp -n 2 --zero-keep 1KiB
    refused '--zero-stage has no effect with --sync allreduce' $model --sync allreduce -n 2 --zero-stage 2
    refused 'a rank holds slices' $model --strategy zero3 -n 2 --save-ranks

    # Weights from a file: every rank has its slices of them, not those of the initial values.
    for strategy in "single --deal 2x1" "zero1 -n 2" "zero3 -n 2"; do
        "$STRETTO" train $model --batch 24 --steps 1 --lr 0 --quiet --weights one --strategy $strategy --out loaded --overwrite ||
            say "$strategy with --weights: exit $?"
        [ "$(field loaded param_hash)" = "$(field one param_hash)" ] || say "$strategy with --weights: other parameters"
    done

    # Parameters that two stages share: both copies are compared at a save, and one is in the checkpoint.
    tied="--model bert-tiny --device ref --batch 8 --data synthetic:kind=tokens,seq=8,vocab=100,predictions=2 --quiet --steps 2 --threads 1"
    "$STRETTO" train $tied --deal 2x2 --out shared || say "tied, one device: exit $?"
    for stage in 1 3; do
        "$STRETTO" train $tied --strategy 1f1b --stages 2 -n 4 --micro-batches 2 --zero-stage $stage --save-every 1 --out tied$stage ||
            say "tied, zero$stage: exit $?"
        [ "$(field tied$stage param_hash)" = "$(field shared param_hash)" ] || say "tied, zero$stage: other parameters"
    done

    for stage in 1 2 3; do
        "$STRETTO" simulate $model --batch 24 --strategy zero$stage -n 4 >out 2>err || say "simulate zero$stage: $(cat err)"
    done
}
exit $failed
