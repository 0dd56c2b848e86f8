# --restarts: a run that loses a rank goes on by itself and ends as an undisturbed one.
. "$ROOT/tests/ranks/lib.sh"
whole undisturbed -n 3 $small
for row in 1:F:7 0:SAVE:10 2:JOIN:0; do
    rm -rf run
    rank=${row%%:*} at=${row#*:} at=${at%:*}
    STRETTO_FAULT="rank=$rank,at=$at,step=${row##*:},do=kill" code 0 train -n 3 $small --restarts 1 --out run
    says err "rank $rank ended: killed by signal 9"
    says err 'all ranks start again, 1 of 1 times'
    [ "$(grep -c "^rank $rank pid" run/rank-$rank.log)" = 2 ] || { cat run/rank-$rank.log; exit 1; }
    ends_as run "$want"
    [ "$(grep -c '"loss"' run/metrics.jsonl)" = "$(grep -c '"loss"' undisturbed/metrics.jsonl)" ] ||
        { echo "metrics of steps are missing or there twice"; cat run/metrics.jsonl; exit 1; }
done
# a rank that ends by itself with a code of its own is no loss to be repaired
rm -rf run
STRETTO_FAULT=rank=1,at=F,step=7,do=exit code 7 train -n 3 $small --restarts 1 --out run
says err 'rank 1 ended: exit code 7'
! grep -q 'start again' err || { cat err; exit 1; }
