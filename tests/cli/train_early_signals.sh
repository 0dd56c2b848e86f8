# SIGUSR1 and SIGUSR2 while a run starts: they end nothing. From the moment the program starts itself once more (see
# src/cli/main.c), which /proc shows; before it, nothing of ours runs. The delays spread the signals over the start.
set -u
mlp="--model mlp --threads 1 --batch 24 --steps 50"
# begun PID: it is the program, started once more; or it has ended
begun() { ! kill -0 "$1" 2>/dev/null || grep -qz '^STRETTO_STARTED=' "/proc/$1/environ" 2>/dev/null; }
# early SIGNAL DELAY OPTION...
early() {
    signal=$1 delay=$2
    shift 2
    rm -rf run
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp --out run "$@" >out 2>err &
    run=$!
    until begun $run; do :; done
    sleep "$delay"
    kill "-$signal" $run 2>/dev/null
    wait $run
    code=$?
    [ $code = 0 ] || { echo "SIG$signal after $delay s, $*: exit code $code"; cat err; exit 1; }
}
for tenth in 0 1 2 3 4 5 6 7 8 9; do
    for signal in USR1 USR2; do
        early $signal 0.0$tenth -n 1
        early $signal 0.$tenth -n 2
        early $signal 0.0$tenth -n 2 --spawn threads
    done
done
# a rank itself, as soon as there is one: none of its own handlers is there yet
for signal in USR1 USR2; do
    rm -rf run
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp -n 2 --out run >out 2>err &
    run=$!
    until grep -qs '^rank 1 pid' run/rank-1.log; do kill -0 $run || break; done
    kill -$signal "$(sed -n 's/^rank 1 pid \([0-9]*\) .*/\1/p' run/rank-1.log)" 2>/dev/null
    wait $run || { echo "SIG$signal to a rank: exit code $?"; cat err; exit 1; }
done
# What came early is not lost: the save that was asked for is made.
rm -rf run
# shellcheck disable=SC2086
"$STRETTO" train $mlp --save-every never --eval-every never --out run >out 2>err &
run=$!
until begun $run; do :; done
kill -USR2 $run
wait $run || { echo "exit code $?"; cat err; exit 1; }
grep -q 'saving after step 1, as asked' err || { cat err; exit 1; }
