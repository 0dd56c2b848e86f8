# --strategy auto on ranks: rank 0's choice holds for all, is saved, and is taken again by --resume unless an option that it
# depends on has changed; and whatever is chosen trains as one device does.
. "$ROOT/tests/ranks/lib.sh"
model="--model resnet8 --data synthetic:count=60,test_count=8,size=8 --batch 16 --threads 1 --eval-every never --save-every 4 --lr-policy const --warmup 0 --quiet"
common="$model --micro-batches 4 --stages 2"
explain() { "$STRETTO" explain -n 2 $common --quiet "$@" || { echo "explain $*"; exit 1; }; }
# like FILE RUN: the run was with the program of that file
like() { cmp -s "$1" "$2/program.txt" || { echo "$2 was not with the program of $1"; diff "$1" "$2/program.txt" | head -n 5; exit 1; }; }

# 8 steps: two epochs, each with a short last step.
whole one $model --deal 1x4 --steps 8
train -n 2 $common --strategy auto --steps 8 --out two || exit 1
ends_as two "$want"
train -n 2 $common --strategy auto --steps 8 --spawn threads --out threads || exit 1
ends_as threads "$want"
explain --strategy auto --save-program auto.txt >/dev/null
like auto.txt two
like auto.txt threads
grep -q "^rank 1 last$" two/program.txt || { echo "the short last step is not saved"; exit 1; }

# Rank 1 would choose other programs: it takes those of rank 0.
explain --strategy auto --virtual 2 --save-program virtual.txt
explain --strategy auto --virtual 1 --save-program plain.txt
for rank in 0 1; do
    train $common --strategy auto --steps 8 --virtual $((2 - rank)) --rank $rank --world-size 2 --init "file://$PWD/rendezvous" --out hand >out$rank 2>err$rank &
    jobs="${jobs:-} $!"
done
for job in $jobs; do wait "$job" || { cat err0 err1; exit 1; }; done
like virtual.txt hand
ends_as hand "$want"

# What was saved is taken again, here in a form that nobody would choose; until an option says otherwise. No step is short.
even="--data synthetic:count=64,test_count=8,size=8"
whole one-even $model $even --deal 1x4 --steps 8
train -n 2 $common $even --strategy auto --steps 4 --out again || exit 1
explain $even --strategy gpipe --save-program gpipe.txt
! cmp -s gpipe.txt again/program.txt || { echo "auto chooses gpipe: the test shows nothing"; exit 1; }
cp gpipe.txt again/program.txt
code 0 train -n 2 --resume --steps 8 --out again
like gpipe.txt again
ends_as again "$want"
cp -r again other
code 0 train -n 2 --resume --steps 10 --virtual 2 --out other
explain $even --strategy auto --virtual 2 --save-program even.txt
like even.txt other
code 0 train --resume --steps 10 --stages 1 --out again
grep -q 'stages 1 replicas 2' again/program.txt || { echo "one stage: $(sed -n 2p again/program.txt)"; exit 1; }

# A limit a little below what the fastest order takes: another one is chosen, and all ranks keep to it.
large="--model resnet8 --data synthetic:count=64,test_count=8 --batch 64 --micro-batches 4 --threads 1 --eval-every never --save-every never --steps 1 --quiet"
peak() { "$STRETTO" explain -n 2 $large --stages 2 --strategy auto --json "$@" 2>/dev/null | sed 's/.*"predicted_peak_bytes": \([0-9]*\).*/\1/'; }
whole one-large $large --deal 1x4
limit=$(($(peak) - 1048576))
train -n 2 $large --stages 2 --strategy auto --memory-limit $limit --out tight || exit 1
ends_as tight "$want"
[ "$(peak --memory-limit $limit)" -le $limit ] || { echo "$(peak --memory-limit $limit) of $limit"; exit 1; }
