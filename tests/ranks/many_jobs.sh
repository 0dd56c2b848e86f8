# Twenty jobs at once with default settings do not get in one another's way.
. "$ROOT/tests/ranks/lib.sh"
for job in $(seq 20); do
    "$probe" -n 2 --join-limit 300 >"out$job" 2>&1 &
done
wait
for job in $(seq 20); do
    grep -q '^\[rank 1\] rank 1 of 2' "out$job" || { echo "job $job:"; cat "out$job"; exit 1; }
done
