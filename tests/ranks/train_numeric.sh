# A number that is not finite on one rank stops all of them with 6; the rank that has it names tensor and operation.
. "$ROOT/tests/ranks/lib.sh"
STRETTO_FAULT=rank=1,step=7,at=F,do=nan code 6 train -n 3 $small --out run
says run/rank-1.log 'step 7: the loss is .*nan: parameter .*, read by linear, is not finite'
says err 'rank 1 ended: exit code 6'
for rank in 0 2; do
    says run/rank-$rank.log 'step 7: the loss is .*nan: that of rank 1 is not finite'
done
says run/summary.json '"exit": 6'
[ ! -e run/model.safetensors ] || { echo "a model was written all the same"; exit 1; }
nobody_left run
# resumed from before it, the run ends well
whole undisturbed -n 3 $small
code 0 train -n 3 $small --out run --resume
ends_as run "$want"
# on all of them at once
rm -rf run
code 6 train -n 3 --model mlp --threads 1 --batch 24 --steps 20 --lr 1e30 --warmup 0 --out run --quiet
says err 'step 2: .*linear'
# a rank that holds slices of the parameters, the first or the last ones
for rank in 0 1; do
    STRETTO_FAULT=rank=$rank,step=7,at=GATHER,do=nan code 6 train -n 2 --strategy zero3 $small --out slices$rank
    says slices$rank/rank-$rank.log 'step 7: the loss is nan: parameter .*, read by linear, is not finite'
    nobody_left slices$rank
done
# What shows on one rank alone, after its update, ends the others too: they are told, and need not be asked.
for kind in ddp zero2; do
    for rank in 0 1; do
        STRETTO_FAULT=rank=$rank,step=7,at=STEP,do=nan code 6 train -n 2 --strategy $kind $small --out $kind$rank
        says $kind$rank/rank-$rank.log 'step 7: parameter .*, read by linear, is not finite after the update'
        ! grep -q 'asked to end' err || { echo "$kind, rank $rank: the other one was not told"; cat err; exit 1; }
        nobody_left $kind$rank
    done
done
