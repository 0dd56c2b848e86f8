# SIGTERM ends a run in which a rank makes no progress: the ranks that wait for it give up once the wait is longer than
# --stall-after. Without the signal they wait, and say so.
. "$ROOT/tests/ranks/lib.sh"
job=
trap '[ -z "$job" ] || kill -9 "$job" 2>/dev/null' EXIT # should SIGTERM not do
gone() { ! alive "$1"; }
for spawn in processes threads; do
    rm -rf run out err
    STRETTO_FAULT=rank=1,step=7,at=B,do=hang "$STRETTO" train -n 2 --spawn $spawn $small --stall-after 1 --grace 1 --out run >out 2>err &
    job=$!
    await 600 grep -q 'rank 0 waits .* for rank 1 at step' err
    kill -TERM $job
    await 600 gone $job
    wait $job
    code=$?
    job=
    [ $code = 4 ] || { echo "$spawn: exit code $code, not 4"; cat err; exit 1; }
    says err 'rank 0: SIGTERM, and no progress for .*: the step does not end, stopped without saving'
    [ $spawn = threads ] || nobody_left run
    code 0 train --out run --resume --quiet # what was saved before is there
done
