# Signals to the launcher of a run: it saves and stops, saves, says where everybody is; killed with -9 it leaves nobody.
# A rank that stands still holds the run at a step until the signal is under way.
. "$ROOT/tests/ranks/lib.sh"
# hold RUN OPTION...: a run whose rank 1 stands at step 7
hold() {
    run=$1
    shift
    # env: a shell makes background jobs ignore SIGINT, which a launcher keeps
    STRETTO_FAULT=rank=1,step=7,at=B,do=stop env --default-signal=INT "$STRETTO" train -n 3 $small --out "$run" "$@" >out 2>err &
    launcher=$!
    await 300 stands "$run" 1
}
go_on() { kill -CONT "$(pid_of "$1" 1)"; }
whole undisturbed -n 3 $small
for row in INT:130 TERM:143 HUP:129; do
    signal=${row%:*}
    hold "$signal"
    kill "-$signal" $launcher
    sleep 0.3 # for the launcher to pass it on; later it would only stop at a later step
    go_on "$signal"
    wait $launcher
    got=$?
    [ $got = "${row#*:}" ] || { echo "SIG$signal: exit code $got"; cat err; exit 1; }
    says err 'saved; --resume continues it'
    ! grep -q 'error' err || { cat err; exit 1; }
    [ "$(ls -d "$signal"/checkpoints/step-* | tail -n 1 | sed 's/.*step-0*//')" -lt 20 ] || { echo "SIG$signal: not stopped"; exit 1; }
    nobody_left "$signal"
    train -n 3 --resume --out "$signal" --quiet >out || exit 1
    ends_as "$signal" "$want"
done
# the second signal does not wait: rank 1 still stands
hold twice
kill -TERM $launcher
sleep 0.3
kill -INT $launcher
wait $launcher
got=$?
[ $got = 130 ] || { echo "the second signal: exit code $got"; cat err; exit 1; }
says err 'again: ranks are killed'
nobody_left twice
# SIGUSR1: where everybody is; SIGUSR2: a checkpoint at a step that has none otherwise
hold told
kill -USR2 $launcher
sleep 0.3
kill -USR1 $launcher
await 100 grep -q 'rank 2 .*, host' err
for rank in 0 1 2; do says err "rank $rank is at step 7 #[0-9]* r$rank"; done
says err 'rank 1 is at step 7 #[0-9]* r1 B'
[ "$(grep -c 'rank 0 is at' err)" = 1 ] || { echo "said more than once"; cat err; exit 1; }
go_on told
wait $launcher || { echo "SIGUSR1 or SIGUSR2 ended the run"; cat err; exit 1; }
says err 'saving after step [78], as asked'
ends_as told "$want"
# killed itself, with one rank standing
hold orphans
kill -KILL $launcher
wait $launcher 2>/dev/null
for pid in $(pids_of orphans); do
    gone() { ! alive "$pid"; }
    await 100 gone
done
