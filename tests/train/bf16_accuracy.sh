# bf16 learns as f32 does: on digits within one point of it.
. "$ROOT/tests/train/lib.sh"
slow_build
"$STRETTO" explain --model mlp --dtype bf16 --quiet >/dev/null 2>&1 || { echo "no bf16 on this machine"; exit 77; }
for model in mlp resnet8; do
    for dtype in f32 bf16; do
        "$STRETTO" train --model $model --dtype $dtype --threads 1 --epochs 4 --out $model-$dtype --quiet 2>/dev/null || exit 1
    done
    wide=$(key $model-f32/summary.json acc1)
    at_least "$(key $model-bf16/summary.json acc1)" "$(awk -v a="$wide" 'BEGIN { print a - 0.01 }')" "$model, f32 has $wide, bf16"
done
