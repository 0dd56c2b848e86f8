# Signals to the launcher reach all ranks, which end in order; killed itself, it leaves nobody behind.
. "$ROOT/tests/ranks/lib.sh"
# start: ranks that stay, until all have joined
start() {
    rm -rf run
    # env: a shell starts background jobs with SIGINT ignored, which the launcher and its ranks would keep
    PROBE=stay env --default-signal=INT "$probe" -n 3 --out run >out 2>err &
    launcher=$!
    for rank in 0 1 2; do
        tries=0
        until grep -qs "rank $rank of 3" run/rank-$rank.log; do
            sleep 0.1
            tries=$((tries + 1))
            [ $tries -lt 600 ] || { echo "rank $rank did not come"; cat out err; exit 1; }
        done
    done
}
pids() { sed -n 's/^rank [0-9]* pid \([0-9]*\) .*/\1/p' run/rank-*.log; }
for signal in INT TERM HUP; do
    start
    kill -$signal $launcher
    wait $launcher
    got=$?
    case $signal in INT) number=2 ;; TERM) number=15 ;; HUP) number=1 ;; esac
    [ $got = $((128 + number)) ] || { echo "SIG$signal: exit code $got"; cat out err; exit 1; }
    ! grep -q 'error' err || { cat err; exit 1; }
done
# while they are still waiting for one another
PROBE=away:1 "$probe" -n 2 --out early >out 2>err &
launcher=$!
until grep -qs '^rank 1 pid' early/rank-1.log; do sleep 0.1; done
kill -TERM $launcher
wait $launcher
got=$?
[ $got = 143 ] || { echo "before joining: exit code $got"; cat out err; exit 1; }
start
kill -KILL $launcher
wait $launcher 2>/dev/null
tries=0
for pid in $(pids); do
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { echo "rank $pid outlives its launcher"; exit 1; }
    done
done
# SIGTERM after the loss of a rank, while another is still there: nothing starts again
PROBE=stay "$probe" -n 2 --restarts 2 --out lost >out 2>err &
launcher=$!
for rank in 0 1; do await 600 grep -qs "rank $rank of 2" lost/rank-$rank.log; done
kill -STOP "$(pid_of lost 0)"
await 600 stands lost 0
kill -KILL "$(pid_of lost 1)"
await 600 grep -q 'rank 1 ended: killed by signal 9' err
kill -TERM $launcher
kill -CONT "$(pid_of lost 0)"
over() { ! alive $launcher || grep -q 'start again' err; }
await 600 over
! grep -q 'start again' err || { cat err; kill -KILL $launcher; exit 1; }
wait $launcher
got=$?
[ $got = 143 ] || { echo "stopped after a loss: exit code $got"; cat out err; exit 1; }
