# The folder of a run has one writer: a second run is refused, whatever it was told, and names the first. A killed run holds nothing.
. "$ROOT/tests/ranks/lib.sh"
options="--model mlp --threads 1 --batch 24 --save-every never --eval-every never --quiet"
for way in "-n 1" "-n 2" "-n 2 --spawn threads"; do
    rm -rf run
    "$STRETTO" train $options $way --steps 10000000 --out run >first 2>&1 &
    first=$!
    await 600 grep -q . run/metrics.jsonl
    for option in --overwrite --resume; do
        code 2 "$STRETTO" train $options $way --steps 3 --out run $option
        says err "run is being written by another run: process $first on host"
    done
    [ -s run/metrics.jsonl ] || { echo "the second took something away"; exit 1; }
    kill -KILL $first
    wait $first
    code 0 "$STRETTO" train $options $way --steps 3 --out run --overwrite
    [ ! -e run/.stretto-lock ] || { echo "the lock is left"; exit 1; }
done
