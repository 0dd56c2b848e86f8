# A checkpoint of one layout goes on under any other: pipelines, V-shapes, data parallel and one device, all with the same
# micro-batches, end as a run that nothing disturbed.
. "$ROOT/tests/ranks/lib.sh"
two="--stages 2 --replicas 2 --micro-batches 2"
layout() {
    case $1 in
    single) echo "--strategy single -n 1 --deal 2x2" ;;
    ddp) echo "--strategy ddp -n 2 --micro-batches 2" ;;
    *) echo "--strategy $1 $two" ;;
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
whole undisturbed $common $(layout single)
chain there "$common" 1f1b ddp single
chain back "$common" single ddp zbv gpipe
# tied weights and AdamW's state, which stages share
[ -z "$SAN" ] || exit 0
common="--model bert-tiny --threads 1 --batch 12 --steps 9 --save-every 2 --eval-every never --data synthetic:kind=tokens,seq=16,vocab=200,predictions=3,count=60,test_count=8"
# shellcheck disable=SC2046,SC2086
whole tied $common $(layout single)
chain tied-there "$common" ddp interleaved zbv
