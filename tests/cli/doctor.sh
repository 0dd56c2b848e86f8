# doctor answers with its exit code: 0, or 1 where something would stop a run.
set -u
"$STRETTO" doctor >out || { code=$?; cat out; [ $code = 1 ] && exit 77; exit 1; }
grep -q 'Stretto can run here' out || { cat out; exit 1; }
"$STRETTO" doctor --json | grep -q '"level": "ok"' || exit 1
grep -q 'optional parts .*MUNGE' out || { echo "a row is broken in a pipe"; exit 1; }
# A terminal gets no line that is wider than it.
if command -v script >/dev/null; then
    script -qec "stty cols 60; $STRETTO doctor" wide >/dev/null
    tr -d '\r' <wide | grep -v '^Script' | awk 'length > 60 { print; bad = 1 } END { exit bad }' || exit 1
fi
# What the program chose for itself is not taken for the user's.
env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT "$STRETTO" doctor >out
said="not set"
[ -r /proc/self/schedstat ] || said="not set; GOMP_SPINCOUNT is '3000'"
grep -q "OMP_WAIT_POLICY  *$said" out || { cat out; exit 1; }
OMP_WAIT_POLICY=passive "$STRETTO" doctor | grep -q "OMP_WAIT_POLICY  *'passive'" || exit 1
OMP_DYNAMIC=true "$STRETTO" doctor | grep -q 'Stretto can run here' || { echo "OMP_DYNAMIC stops a run"; exit 1; }
[ "$(nproc)" -gt 1 ] || { echo "one core: OMP_THREAD_LIMIT cannot be too small"; exit 77; }
OMP_THREAD_LIMIT=1 "$STRETTO" doctor >out
code=$?
cat out
[ $code = 1 ] || { echo "exit $code, not 1"; exit 1; }
grep -q 'a run would stop' out
