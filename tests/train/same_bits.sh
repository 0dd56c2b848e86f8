# Same seed, same bits: in fresh processes, at 1 and at 2 threads, each with itself, for each family of models and each type.
. "$ROOT/tests/train/lib.sh"
narrow=bf16
"$STRETTO" explain --model mlp --dtype bf16 --quiet >/dev/null 2>&1 || narrow=
for case in "mlp f32" "lenet f32" "resnet8 f32" "vit-micro f32" "bert-tiny f32" ${narrow:+"lenet bf16" "resnet8 bf16" "bert-tiny bf16"}; do
    model=${case% *} dtype=${case#* }
    data=synthetic:size=32,channels=3,count=96
    [ "$model" = bert-tiny ] && data=synthetic:count=48,seq=32
    for threads in 1 2; do
        for run in a b; do
            rm -rf $run
            "$STRETTO" train --model "$model" --data $data --batch 16 --steps 5 --threads $threads --dtype "$dtype" --out $run --quiet || exit 1
        done
        a=$(key a/summary.json param_hash) b=$(key b/summary.json param_hash)
        echo "$model, $dtype, $threads thread(s): $a $b"
        [ -n "$a" ] && [ "$a" = "$b" ] || exit 1
    done
done
