# Stages without parameters whose replicas hold slices of gradients, of parameters: the last, one in the middle, those that the
# balance makes. They train to the bits of one device, are saved, resumed after a death, evaluated and asked for predictions; and
# what `check` proves of their programs holds when they run.
. "$ROOT/tests/ranks/lib.sh"
LIMIT=120
digits="--device ref --threads 1 --data synthetic:size=8,count=64,test_count=8,channels=1 --batch 16 --steps 4 --save-every 2 --eval-every 2"
value() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$1"; } # FILE KEY
# equal OPTION...: proved, and run to $want
# shellcheck disable=SC2086
equal() {
    code 0 "$STRETTO" check $common "$@"
    code 0 train $common "$@" --quiet --out run --overwrite
    ends_as run "$want"
}
# shellcheck disable=SC2086
{
    common="$digits --model mlp"
    whole one $common --strategy single --deal 2x1
    equal --strategy gpipe --stages 2 --replicas 2 -n 4 --zero-stage 2 --cut loss
    equal --strategy auto --virtual 1 --stages 2 --replicas 2 -n 4 --zero-stage 2 --cut loss
    equal --strategy gpipe --stages 4 --replicas 2 -n 8 --zero-stage 2
    equal --strategy zbv --stages 2 --replicas 2 -n 4 --zero-stage 3 --spawn threads
    # a rank without parameters dies; those left are resumed
    STRETTO_FAULT=rank=3,at=SCATTER,step=3,do=kill code 4 train $common --strategy 1f1b --stages 2 --replicas 2 -n 4 --zero-stage 3 \
        --cut loss --quiet --out run --overwrite
    code 0 train $common --strategy 1f1b --stages 2 --replicas 2 -n 4 --zero-stage 3 --cut loss --quiet --out run --resume
    ends_as run "$want"
    nobody_left run
    for run in one run; do
        code 0 "$STRETTO" eval $run --json
        value out loss >$run.loss
        [ -s $run.loss ] || { echo "eval says no loss"; cat out; exit 1; }
        code 0 "$STRETTO" predict $run --output $run.npy
    done
    cmp one.loss run.loss || exit 1
    cmp one.npy run.npy || exit 1

    common="$digits --model resnet8 --micro-batches 2"
    whole scattered $common --strategy single --deal 2x2 --sum replicas-first
    for schedule in eager-1f1b zb-h1; do
        equal --strategy $schedule --stages 3 --replicas 2 -n 6 --cut avgpool,fc --zero-stage 2 --zero-accumulate scatter
    done
}
