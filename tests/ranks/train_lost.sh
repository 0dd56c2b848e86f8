# Training whose rank 1 is killed in mid-run: exit 4 and the rank's name; --restarts goes on by itself, --resume by hand, and both end
# with the parameters of an unbroken run.
. "$ROOT/tests/ranks/lib.sh"
train() { "$STRETTO" train -n 2 --model mlp --threads 1 --steps 6000 --save-every 500 --eval-every never --quiet "$@"; }
# kill_rank FOLDER: once it has saved
kill_rank() {
    tries=0
    until ls "$1"/checkpoints/* >/dev/null 2>&1; do
        sleep 0.05
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "no checkpoint comes"; cat err; exit 1; }
    done
    kill -KILL "$(sed -n 's/^rank 1 pid \([0-9]*\) .*/\1/p' "$1/rank-1.log" | tail -n 1)"
}
train --out whole || exit 1
[ -n "$(hash whole)" ] || exit 1
train --out broken >out 2>err &
run=$!
kill_rank broken
wait $run
code=$?
[ $code = 4 ] || { echo "exit code $code, not 4"; cat out err; exit 1; }
says err 'rank 1 ended: killed by signal 9 (Killed)'
"$STRETTO" train --resume --out broken --quiet || exit 1
[ "$(hash broken)" = "$(hash whole)" ] || { echo "resumed by hand: other parameters"; exit 1; }
train --out again --overwrite --restarts 1 >out 2>err &
run=$!
kill_rank again
wait $run
code=$?
[ $code = 0 ] || { echo "exit code $code after a restart"; cat out err; exit 1; }
says err 'all ranks start again, 1 of 1 times'
[ "$(hash again)" = "$(hash whole)" ] || { echo "started again: other parameters"; exit 1; }
