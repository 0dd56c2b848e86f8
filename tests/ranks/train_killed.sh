# kill -9 of every rank in every phase: the others end, the right one is named, and --resume ends as an undisturbed run.
. "$ROOT/tests/ranks/lib.sh"
# position_of RANK AT STEP: where the exit report must say that it was
position_of() {
    case $2 in
    JOIN) echo planning ;;
    BCAST) echo "step 1 #[0-9]* r$1 BCAST" ;;
    EVAL | SAVE) echo "step $3 $2" ;;
    *) echo "step $3 #[0-9]* r$1 $2" ;;
    esac
}
# killed OPTIONS RANK AT STEP: one rank dies there; three such tests run beside one another.
killed() {
    run=killed-$2-$3
    # shellcheck disable=SC2086
    STRETTO_FAULT="rank=$2,at=$3,do=kill${4:+,step=$4}" train $1 -n 3 --out $run >$run.out 2>$run.err
    code=$?
    [ $code = 4 ] || { echo "$run: exit code $code, not 4"; cat $run.err; exit 1; }
    says $run.err "error: rank $2 ended: killed by signal 9 (Killed), last at $(position_of "$2" "$3" "$4")"
    [ "$(grep -c 'ended: ' $run.err)" = 1 ] || { echo "$run: blames others"; cat $run.err; exit 1; }
    says $run.err "rank $2 .*is lost.*: killed by signal 9"
    nobody_left $run
    # shellcheck disable=SC2086
    train $1 -n 3 --out $run --resume >$run.out 2>$run.err || { echo "$run: not resumed"; cat $run.err; exit 1; }
    ! grep -q damaged $run.err || { cat $run.err; exit 1; }
    ends_as $run "$want"
}
# phase OPTIONS AT STEP: the three ranks, one after another in three jobs at once
phase() {
    echo "at $2"
    waiting=
    for rank in 0 1 2; do
        killed "$1" $rank "$2" "$3" &
        waiting="$waiting $!"
    done
    for job in $waiting; do wait "$job" || exit 1; done
}
whole undisturbed -n 3 $small
phase "$small" JOIN ''
phase "$small" BCAST ''
for at in COUNT F B REDUCE REPORT NORM STEP; do phase "$small" $at 7; done
for at in EVAL SAVE; do phase "$small" $at 10; done
# several buckets, and batch norm's own state
[ -z "$SAN" ] || exit 0
deep="--model resnet8 --threads 1 --batch 24 --steps 6 --save-every 2 --eval-every never --quiet"
rm -r undisturbed killed-*
whole undisturbed -n 3 $deep
phase "$deep" REDUCE 4
phase "$deep" SAVE 4
