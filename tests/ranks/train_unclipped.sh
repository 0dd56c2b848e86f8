# Without clipping STEP does not wait for the norm of the gradients. A gradient that is not finite is known a step later, or before a
# checkpoint, an evaluation or the end: the run ends with 6, the message and the metrics name the step in which it was, nothing of it is
# saved, and the checkpoint before it is kept.
. "$ROOT/tests/ranks/lib.sh"
pipe="--strategy 1f1b --stages 2 --micro-batches 2"
# bad NAME STEP SAVED OPTION...: rank 1 has a gradient that is not finite in that step; the newest checkpoint is that of SAVED
bad() {
    name=$1 step=$2 saved=$3
    shift 3
    STRETTO_FAULT=rank=1,step=$step,at=TIE,do=nan-gradient code 6 train $small "$@" --out $name
    cat $name/rank-*.log >logs
    says logs "step $step: the norm of the gradients is nan: the gradient of .* is not finite"
    for log in $name/rank-*.log; do says $log "step $step: the norm of the gradients is nan"; done
    ! grep -q "step $((step + 1)):" logs || { echo "another step is named"; cat logs; exit 1; }
    last=$(sed -n 's/.*"kind":"train","step":\([0-9]*\).*/\1/p' $name/metrics.jsonl | tail -n 1)
    [ "$last" = $((step - 1)) ] || { echo "metrics end with step $last"; exit 1; }
    ! grep '"kind":"train"' $name/metrics.jsonl | grep '"grad_norm":null' || exit 1
    says $name/summary.json "\"steps\": $((step - 1)),"
    says $name/summary.json '"exit": 6'
    newest=$(ls $name/checkpoints | sed -n 's/^step-0*//p' | sort -n | tail -n 1)
    [ "$newest" = "$saved" ] || { echo "the newest checkpoint is of step $newest, not $saved"; exit 1; }
    [ ! -e $name/model.safetensors ] && [ ! -e $name/model.safetensors.index.json ] || { echo "a model was written"; exit 1; }
    nobody_left $name
}
# in the middle; where a checkpoint and an evaluation are due; in the last step
bad pipe7 7 5 $pipe
bad pipe10 10 5 $pipe
bad pipe20 20 15 $pipe
bad pmp15 15 10 --strategy pmp --stages 2 --micro-batches 2
bad zero1 7 5 -n 2 --strategy zero1
bad zero3 10 5 -n 2 --strategy zero3
bad grid 20 15 --strategy 1f1b --stages 2 --replicas 2 --zero-stage 3
bad rpc 7 5 -n 3 --strategy rpc --stages 2
# resumed from the checkpoint before it, the run ends as one that nothing disturbed
whole undisturbed $small $pipe
code 0 train $small $pipe --out pipe10 --resume
ends_as pipe10 "$want"
# with clipping the update waits, and the step is named before it
STRETTO_FAULT=rank=1,step=7,at=TIE,do=nan-gradient code 6 train $small $pipe --clip 1 --out clip
says clip/rank-1.log 'step 7: the norm of the gradients is nan: parameters of this rank are finite, the gradient of .* is not'
# a parameter that the update itself makes not finite is told when the norm is known to be finite
STRETTO_FAULT=rank=1,step=10,at=STEP,do=nan code 6 train $small $pipe --out update
says update/rank-1.log 'step 10: parameter .* is not finite after the update'
[ ! -e update/checkpoints/step-00000010 ] || { echo "what is not finite was saved"; exit 1; }
