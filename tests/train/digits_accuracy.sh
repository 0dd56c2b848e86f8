# The defaults reach 98.5 % on digits with three seeds.
. "$ROOT/tests/train/lib.sh"
slow_build
for seed in 0 1 2; do
    "$STRETTO" train --seed $seed --out run$seed --quiet || exit 1
    at_least "$(key run$seed/summary.json acc1)" 0.985 "digits, resnet8, seed $seed"
done
