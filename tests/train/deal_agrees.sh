# --deal 1x4 and 2x2 of models without batch norm agree to 1e-5; with --sum tree 1x4, 2x2 and 4x1 are equal to the bit.
. "$ROOT/tests/train/lib.sh"
for model in mlp vit-micro; do
    for deal in 1x4 2x2 4x1; do
        "$STRETTO" train --model $model --deal $deal --steps 5 --lr 1e-3 --out $model-$deal --quiet || exit 1
        "$STRETTO" train --model $model --deal $deal --steps 5 --lr 1e-3 --sum tree --out $model-tree-$deal --quiet || exit 1
    done
    "$STRETTO" compare $model-1x4/model.safetensors $model-2x2/model.safetensors --json >diff
    largest=$(grep -o '"max_abs": *[0-9.e+-]*' diff | sed 's/.*: *//' | sort -g | tail -n 1)
    echo "$model: 1x4 and 2x2 differ by at most ${largest:-0}"
    awk -v d="${largest:-0}" 'BEGIN { exit !(d <= 1e-5) }' || exit 1
    for deal in 2x2 4x1; do
        "$STRETTO" compare $model-tree-1x4/model.safetensors $model-tree-$deal/model.safetensors || exit 1
    done
done
