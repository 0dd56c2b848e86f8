# lenet reaches 98.5 % on MNIST in three epochs.
. "$ROOT/tests/train/lib.sh"
slow_build
need_data mnist
"$STRETTO" train --model lenet --data "mnist:$shared/data/mnist" --epochs 3 --out run --quiet || exit 1
at_least "$(key run/summary.json acc1)" 0.985 "mnist, lenet, 3 epochs"
