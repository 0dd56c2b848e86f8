# SIGTERM to the launcher: while ranks train they save and stop; while one waits for the others it ends at once.
. "$ROOT/tests/ranks/lib.sh"
"$STRETTO" train -n 2 --model mlp --threads 1 --steps 100000000 --eval-every never --out run >out 2>err &
run=$!
tries=0
until grep -qs '^step' run/rank-0.log; do
    sleep 0.1
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "no step is made"; cat out err; exit 1; }
done
kill -TERM $run
wait $run
code=$?
[ $code = 143 ] || { echo "exit code $code, not 143"; cat out err; exit 1; }
ls run/checkpoints/* >/dev/null || exit 1
says err 'SIGTERM: ranks stop after this step, then save (again: they are killed)'
says err 'stopped by SIGTERM'
says err 'saved'
# threads: one process, one acknowledgement
"$STRETTO" train -n 2 --spawn threads --model mlp --threads 1 --steps 100000000 --eval-every never --out team >team.out 2>team.err &
run=$!
await 600 grep -q '^step' team.out
kill -TERM $run
wait $run
[ "$(grep -c 'SIGTERM: stopping after this step, then saving' team.err)" = 1 ] || { echo "threads:"; cat team.err; exit 1; }
"$STRETTO" train --model mlp --rank 0 --world-size 2 --init "file://$PWD/rendezvous" --out early >out 2>err &
run=$!
until [ -s rendezvous ]; do sleep 0.1; done
kill -TERM $run
wait $run
code=$?
[ $code = 143 ] || { echo "while it waits: exit code $code"; cat out err; exit 1; }
# --time-limit: all stop after the same step, and nobody is blamed
code 142 train -n 3 $small --steps 100000000 --save-every never --eval-every never --time-limit 1 --out timed
says err 'stopped by --time-limit'
! grep -q 'error' err || { cat err; exit 1; }
