# A run is resumed on another clock, and as a strategy that is never flushed; what cannot go on is refused with a way out.
data=synthetic:size=8,test_count=8
common="--model mlp --batch 12 --threads 1"
# resume NAME OPTION...: what it says is in `out`
resume() {
    name=$1
    shift
    "$STRETTO" train --resume --out "$name" "$@" >out 2>&1
}
# fails WHAT: says why, and shows what was said
fails() {
    echo "$1"
    cat out
    exit 1
}
# shellcheck disable=SC2086
"$STRETTO" train $common --data $data,count=96 --strategy 1f1b --stages 2 --micro-batches 2 --steps 4 --zero-stage 1 --out run >out 2>&1 || fails "1f1b"
grep -q -e '--zero-stage 1 has no effect: each stage has one replica' out || fails "--zero-stage without anybody to slice with is not told"
# No step of an epoch is short: there is none to leave out.
resume run --quiet --steps 8 --strategy pipedream --stages 2 --micro-batches 1 || fails "1f1b as pipedream"
resume run --steps 12 --clock virtual || fails "the wall clock to virtual time"
grep -q 'was made on the wall clock: virtual time begins at 0' out || fails "that time begins is not told"
resume run --quiet --steps 14 --clock virtual --hetero base=3ms && fails "other costs are taken"
grep -q 'virtual time follows from other costs' out && grep -q -e '--clock wall' out || fails "other costs: no way out"
resume run --steps 14 --clock wall || fails "virtual time to the wall clock"
grep -q 'was made in virtual time: its clocks are not gone on with' out || fails "that clocks are dropped is not told"
grep -q '"staleness": *\[' run/summary.json || fails "no staleness"
# With --steps as before the training would have drained: clocks begin at the latest one.
# shellcheck disable=SC2086
"$STRETTO" train $common --data $data,count=96 --strategy pipedream --stages 3 --steps 6 --save-every 5 --eval-every never --quiet --clock virtual --out longer >out 2>&1 || fails "pipedream"
rm -rf longer/checkpoints/step-00000006
resume longer --quiet --steps 9 || fails "more steps"
# shellcheck disable=SC2086
"$STRETTO" train $common --data $data,count=100 --strategy 1f1b --stages 2 --micro-batches 2 --steps 4 --quiet --out short >out 2>&1 || fails "a short step"
resume short --quiet --steps 8 --strategy pipedream --stages 2 --micro-batches 1 && fails "a short step is left out silently"
grep -q 'drop-last was off, this run has on' out || fails "not told"
exit 0
