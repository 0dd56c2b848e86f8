# A rank that stands still: the others say who waits at what for whom; once it goes on, so does the run, to the same end.
# Silent for longer it is lost, and the run ends.
. "$ROOT/tests/ranks/lib.sh"
whole undisturbed -n 3 $small
STRETTO_FAULT=rank=2,step=7,at=NORM,do=stop train -n 3 $small --grace 1 --out dead >dead.out 2>dead.err &
dead=$!
for at in F REDUCE SAVE; do
    step=7
    [ $at != SAVE ] || step=10
    rm -rf run
    STRETTO_FAULT=rank=1,step=$step,at=$at,do=stop train -n 3 $small --stall-after 0.5 --out run >out 2>err &
    job=$!
    await 300 stands run 1
    await 300 grep -q "rank 0 waits .* for rank 1 at step [0-9]* .*; rank 1 .*heard" err
    says err 'rank 2 waits .* for rank 1'
    kill -CONT "$(pid_of run 1)"
    wait $job || { echo "$at: the run did not go on"; cat err; exit 1; }
    ends_as run "$want"
done
wait $dead
code=$?
[ $code = 4 ] || { echo "silent for good: exit code $code"; cat dead.err; exit 1; }
says dead.err 'rank 2 .*is lost.*silent'
nobody_left dead
