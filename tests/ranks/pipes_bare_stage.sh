# A stage may have no parameters: the loss alone. Its replicas start, are evaluated, saved and resumed as those of any other.
. "$ROOT/tests/ranks/lib.sh"
LIMIT=60
common="--model mlp --device ref --threads 1 --batch 16 --micro-batches 4 --steps 6 --save-every 2 --eval-every 3 --data synthetic:size=8,count=64,test_count=8"
bare="--strategy 1f1b --stages 3 --replicas 2 --cut fc2,loss"
code 0 "$STRETTO" explain $common $bare
says out '^ *2 .*loss *loss *0 '
# shellcheck disable=SC2086
whole one $common --strategy single --deal 2x4
for zero in "" "--zero-stage 1" "--zero-stage 3"; do
    # shellcheck disable=SC2086
    STRETTO_FAULT=rank=5,at=F,step=5,do=kill code 4 train $common $bare $zero --out pipe --overwrite
    # shellcheck disable=SC2086
    code 0 train $common $bare $zero --out pipe --resume
    ends_as pipe "$want"
    nobody_left pipe
done
# the same as threads
# shellcheck disable=SC2086
code 0 train $common $bare --spawn threads --out threads
ends_as threads "$want"
