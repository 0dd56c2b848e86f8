# kill -9 of either rank of a pipeline, at every kind of instruction, in an evaluation and in a save: the other one ends, the right
# one is named, and --resume ends as an undisturbed run.
. "$ROOT/tests/ranks/lib.sh"
pipe="$small --strategy 1f1b --stages 2 --micro-batches 4"
whole undisturbed $pipe
# the same training as one device's
code 0 train $small --deal 1x4 --out one
same undisturbed one
# the losses of samples are added in another order: the same to nine digits
evaluations() { sed -n 's/^{"kind":"eval","step":\([0-9]*\),.*"loss":\([0-9.e+-]*\),"acc1":\([0-9.e+-]*\),.*/\1 \2 \3/p' "$1/metrics.jsonl"; }
evaluations undisturbed >many
evaluations one >few
paste -d ' ' many few | awk '{ d = $2 - $5; n += $1 == $4 && $3 == $6 && d * d < 1e-18 * $5 * $5 } END { exit n != 2 }' ||
    { echo "evaluations differ:"; cat many few; exit 1; }
# killed RANK AT STEP
killed() {
    run=killed-$1-$2
    # shellcheck disable=SC2086
    STRETTO_FAULT="rank=$1,at=$2,step=$3,do=kill" train $pipe --out $run >$run.out 2>$run.err
    code=$?
    [ $code = 4 ] || { echo "$run: exit code $code, not 4"; cat $run.err; exit 1; }
    says $run.err "error: rank $1 ended: killed by signal 9 (Killed), last at "
    [ "$(grep -c 'ended: ' $run.err)" = 1 ] || { echo "$run: blames others"; cat $run.err; exit 1; }
    says $run.err "rank $1 .*is lost.*: killed by signal 9"
    nobody_left $run
    # shellcheck disable=SC2086
    train $pipe --out $run --resume >$run.out 2>$run.err || { echo "$run: not resumed"; cat $run.err; exit 1; }
    ends_as $run "$want"
}
for row in 0:LOAD:7 0:SEND_F:7 0:RECV_B:7 0:B:7 1:RECV_F:7 1:F:7 1:SEND_B:7 0:NORM:7 1:STEP:7 0:EVAL:10 1:EVAL:10 0:SAVE:10 1:SAVE:10; do
    rank=${row%%:*} at=${row#*:} at=${at%:*}
    echo "rank $rank at $at"
    killed "$rank" "$at" "${row##*:}"
done
# a pipeline that starts again by itself
STRETTO_FAULT=rank=1,at=B,step=7,do=kill code 0 train $pipe --restarts 1 --out again
says err 'all ranks start again, 1 of 1 times'
ends_as again "$want"
