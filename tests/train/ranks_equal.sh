# Data-parallel ranks are the training of one device, to the last bit: parameters after five steps and after a whole epoch with its
# short last step, and the norms of all gradients on the way; as threads, and some cells as processes. `make test-equal` has all cells.
. "$ROOT/tests/train/lib.sh"
models="mlp resnet8"
[ -n "$SAN" ] || models="mlp resnet8 vit-micro bert-tiny"
for model in $models; do
    for ranks in 1 2 3 4; do
        for micros in 1 2; do cell $model $ranks $micros threads --steps 5 || exit 1; done
    done
    cell $model 3 1 processes --steps 5 || exit 1
    cell $model 2 2 processes --steps 5 || exit 1
    cell $model 4 2 threads --epochs 1 || exit 1
    cell $model 3 2 processes --epochs 1 || exit 1
done
# Statistics of all ranks: one device runs its replicas in lock step.
cell resnet8 2 2 processes --steps 5 --sync-bn || exit 1
cell resnet8 4 1 threads --steps 5 --sync-bn || exit 1
cell resnet8 3 2 threads --epochs 1 --sync-bn || exit 1
