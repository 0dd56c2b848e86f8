# Same seed, same bits: in fresh processes, at 1 and at 2 threads, each with itself, for each family of models.
. "$ROOT/tests/train/lib.sh"
for model in mlp lenet resnet8 vit-micro bert-tiny; do
    data=synthetic:size=32,channels=3,count=96
    [ $model = bert-tiny ] && data=synthetic:count=48,seq=32
    for threads in 1 2; do
        for run in a b; do
            rm -rf $run
            "$STRETTO" train --model $model --data $data --batch 16 --steps 5 --threads $threads --out $run --quiet || exit 1
        done
        a=$(key a/summary.json param_hash) b=$(key b/summary.json param_hash)
        echo "$model, $threads thread(s): $a $b"
        [ -n "$a" ] && [ "$a" = "$b" ] || exit 1
    done
done
