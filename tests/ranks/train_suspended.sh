# Ctrl-Z: the ranks stop with their launcher, and go on with it to the same end. How long that lasts does not matter, so
# the test looks at the states only; that silence of a stopped process is no loss is tested with the control plane.
. "$ROOT/tests/ranks/lib.sh"
whole undisturbed -n 2 $small
state() { sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status"; }
all_stopped() { for pid in $launcher $(pids_of run); do [ "$(state "$pid")" = T ] || return 1; done; }
all_run() { for pid in $(pids_of run); do [ "$(state "$pid")" != T ] || return 1; done; }
# train runs timeout, which makes a process group of its own: a group without a parent in its session cannot be stopped
launcher_of() { sed -n 's/^PPid:\t//p' "/proc/$(pid_of "$1" 0)/status"; }
# rank 1 stands at a step until the launcher goes on, so that the run cannot end before
STRETTO_FAULT=rank=1,step=7,at=B,do=stop train -n 2 $small --out run >out 2>err &
job=$!
await 300 stands run 1
launcher=$(launcher_of run)
kill -TSTP $launcher
await 300 all_stopped
kill -CONT $launcher
wait $job || { echo "exit code $?"; cat err; exit 1; }
ends_as run "$want"
! grep -q 'error' err || { cat err; exit 1; }
# again and again, and a stop after it still saves
rm -rf run out
train -n 2 --model mlp --threads 1 --steps 100000000 --eval-every never --out run >out 2>err &
job=$!
await 300 grep -q '^step' out
launcher=$(launcher_of run)
for round in 1 2 3; do
    kill -TSTP $launcher
    await 300 all_stopped
    kill -CONT $launcher
    await 300 all_run
done
kill -TERM $launcher
wait $job
code=$?
[ $code = 143 ] || { echo "exit code $code, not 143"; cat err; exit 1; }
says err 'saved; --resume continues it'
