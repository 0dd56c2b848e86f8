# A checkpoint of one layout goes on under any other: pipelines, V-shapes, data parallel and one device, all with the same
# micro-batches, end as a run that nothing disturbed.
. "$ROOT/tests/ranks/lib.sh"
layout() {
    case $1 in
    single) echo "--strategy single -n 1 --micro-batches 2 --deal 2x2" ;;
    ddp) echo "--strategy ddp -n 2 --micro-batches 2" ;;
    *) echo "--strategy $1 -n 4 --replicas 2 --micro-batches 2" ;;
    esac
}
# chain NAME COMMON LAYOUT...: each but the last is killed behind its next checkpoint
chain() {
    name=$1 common=$2 resume='' step=0
    shift 2
    while [ $# -gt 1 ]; do
        step=$((step + 3))
        # shellcheck disable=SC2046,SC2086
        STRETTO_FAULT=rank=0,at=STEP,step=$step,do=kill code 4 train $common $(layout "$1") --out "$name" $resume
        resume=--resume
        shift
    done
    # shellcheck disable=SC2046,SC2086
    code 0 train $common $(layout "$1") --out "$name" --resume
    ends_as "$name" "$want"
}
common="--model mlp --device ref --threads 1 --batch 24 --steps 12 --save-every 2 --eval-every never --data synthetic:size=8,count=96,test_count=8"
# shellcheck disable=SC2046,SC2086
whole undisturbed $common $(layout single) --keep 20
chain there "$common" 1f1b ddp single
# From one device and back. Faults are of runs with several ranks: one device's run loses its later checkpoints instead.
# shellcheck disable=SC2086
whole alone $common --micro-batches 4 --keep 20
cp -r alone back
find back/checkpoints -mindepth 1 -maxdepth 1 ! -name '*0002' -exec rm -r {} +
[ "$(ls back/checkpoints)" = step-00000002 ] || { ls alone/checkpoints back/checkpoints; exit 1; }
rm back/model.safetensors back/summary.json
for row in zbv:2:5 1f1b:4:8; do
    of=${row#*:}
    # shellcheck disable=SC2086
    STRETTO_FAULT=rank=1,at=STEP,step=${row##*:},do=kill code 4 train $common --micro-batches 4 --strategy ${row%%:*} -n ${of%:*} --out back --resume
done
# shellcheck disable=SC2086
code 0 train $common --micro-batches 4 --strategy single -n 1 --out back --resume
ends_as back "$want"
# tied weights and AdamW's state, which stages share
[ -z "$SAN" ] || exit 0
common="--model bert-tiny --threads 1 --batch 12 --steps 9 --save-every 2 --eval-every never --data synthetic:kind=tokens,seq=16,vocab=200,predictions=3,count=60,test_count=8"
# shellcheck disable=SC2046,SC2086
whole tied $common $(layout single)
chain tied-there "$common" ddp interleaved zbv
