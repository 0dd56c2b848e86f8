# A rank that stands still: the others say who waits at what for whom; once it goes on, so does the run, to the same end.
# Silent for longer it is lost, and the run ends.
. "$ROOT/tests/ranks/lib.sh"
whole undisturbed -n 3 $small
STRETTO_FAULT=rank=2,step=7,at=NORM,do=stop train -n 3 $small --out dead >dead.out 2>dead.err &
dead=$!
STRETTO_FAULT=rank=2,at=JOIN,do=stop train -n 3 $small --join-limit 15 --out away >away.out 2>away.err &
away=$!
for at in F REDUCE SAVE; do
    step=7
    [ $at != SAVE ] || step=10
    rm -rf run
    STRETTO_FAULT=rank=1,step=$step,at=$at,do=stop train -n 3 $small --stall-after 0.5 --out run >out 2>err &
    job=$!
    await 300 stands run 1
    await 300 grep -q "rank 0 waits .* for rank 1 at step [0-9]* .*; rank 1 .*heard" err
    await 300 grep -q 'rank 2 waits .* for rank 1' err
    kill -CONT "$(pid_of run 1)"
    wait $job || { echo "$at: the run did not go on"; cat err; exit 1; }
    ends_as run "$want"
done
wait $dead
code=$?
[ $code = 4 ] || { echo "silent for good: exit code $code"; cat dead.err; exit 1; }
says dead.err 'rank 2 .*is lost.*silent'
says dead.err 'rank 2 ended: silent for 1[0-9] s, given up and killed, last at step 7'
wait $away
code=$?
[ $code = 4 ] || { echo "away for good: exit code $code"; cat away.err; exit 1; }
says away.err 'rank 2 ended: did not join within 15 s, given up and killed'
for run in dead away; do # at once, not after --grace; and nobody else is named
    ! grep -q 'still run\|rank [01] ended' $run.err || { cat $run.err; exit 1; }
    nobody_left $run
done
