# Another --strategy at --resume is laid out anew: of the run's stages, slices, cuts and programs none is left, so that
# naming it and its ranks is enough, and the bits stay those of one device. The run's own strategy keeps its layout.
. "$ROOT/tests/ranks/lib.sh"
common="--model resnet8 --threads 1 --batch 16 --micro-batches 2 --steps 8 --save-every 2 --eval-every never --data synthetic:size=8,count=64,test_count=8"
# shellcheck disable=SC2086
whole undisturbed $common --strategy single --deal 2x2
# killed STEP OPTION...: goes on, and dies in that step
killed() {
    step=$1
    shift
    STRETTO_FAULT=rank=0,at=STEP,step=$step,do=kill code 4 train --out run "$@"
}
# lines OPTION...: what explain says of ranks and program
lines() { "$STRETTO" explain --resume --out run "$@" >plan || { echo "explain: $*"; exit 1; }; }
# shellcheck disable=SC2086
killed 3 $common --strategy ddp -n 2 --bucket-size 1M
killed 5 --resume --strategy zbv -n 8 --replicas 2 --zero-stage 1 --balance params
lines
says plan '^ranks *8 = 4 in a pipeline x 2 replicas'
lines --strategy zbv
says plan '^ranks *8 = 4 in a pipeline x 2 replicas'
says plan 'ZeRO-1'
lines --strategy gpipe
says plan '^ranks *8 = 8 stages x 1 replica'
lines --strategy interleaved --stages 2
says plan '^ranks *2 = 2 in a pipeline x 1 replica'
killed 7 --resume --strategy 1f1b -n 4 --replicas 2 --cut layer2.0 --recompute always
code 0 train --out run --resume --strategy ddp -n 2
ends_as run "$want"
grep -q '^strategy: ddp' run/config.yml && ! grep -q '^\(cut\|stages\|zero-stage\|recompute: always\)' run/config.yml || { cat run/config.yml; exit 1; }
# What one device replayed is no part of a pipeline.
cp -r undisturbed dealt
code 0 train --out dealt --resume --steps 10 --strategy 1f1b -n 4 --replicas 2 --micro-batches 2
! grep -q '^deal:' dealt/config.yml || { cat dealt/config.yml; exit 1; }
