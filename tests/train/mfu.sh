# summary.json has mfu and the measured peak it is a part of; null where nothing is computed, or not fast.
. "$ROOT/tests/train/lib.sh"
field() { key "$1/summary.json" "$2"; }
known() { awk -v x="$(field "$1" mfu)" 'BEGIN { exit !(x + 0 > 0) }' || { echo "$1: mfu $(field "$1" mfu)"; exit 1; }; }
run="train --model mlp --threads 1 --batch 24 --steps 8 --eval-every never"
"$STRETTO" $run --out one >out || exit 1
known one
grep -q 'of the peak .*% of .* GFLOP/s a rank (mfu, see docs/metrics.md)' out || { cat out; exit 1; }
# operations of all ranks are counted
"$STRETTO" $run --strategy gpipe --stages 2 -n 2 --micro-batches 2 --out two --quiet || exit 1
known two
"$STRETTO" $run --delay f=0.001,b=0.001 --out waits --quiet || exit 1
"$STRETTO" $run --device ref --out ref --quiet || exit 1
for null in waits ref; do
    [ "$(field $null mfu) $(field $null peak_flops)" = "null null" ] || { echo "$null: mfu $(field $null mfu)"; exit 1; }
done
