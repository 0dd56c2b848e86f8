# Data-parallel ranks are the training of one device, to the last bit: parameters after five steps and after a whole epoch with its
# short last step, and the norms of all gradients on the way; as threads, and some cells as processes.
. "$ROOT/tests/train/lib.sh"
norms() { sed -n 's/.*"grad_norm": *\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; }
# cell MODEL RANKS MICRO-BATCHES SPAWN LENGTH...
cell() {
    model=$1 ranks=$2 micros=$3 spawn=$4
    shift 4
    data=digits
    [ "$model" = bert-tiny ] && data=synthetic:count=60,test_count=8,seq=16,predictions=3,vocab=100
    common="--model $model --data $data --batch 24 --threads 1 --log-every 1 --eval-every never --save-every never --quiet $*"
    one=one-$model-${ranks}x$micros-$(echo "$*" | tr -d ' -')
    [ -d "$one" ] || "$STRETTO" train $common --deal "${ranks}x$micros" --out "$one" || exit 1
    rm -rf many
    "$STRETTO" train $common -n "$ranks" --micro-batches "$micros" --spawn "$spawn" --out many || exit 1
    a=$(key "$one/summary.json" param_hash) b=$(key many/summary.json param_hash)
    echo "$model, $ranks x $micros, $spawn, $*: $a $b"
    [ -n "$a" ] && [ "$a" = "$b" ] || exit 1
    [ -n "$(norms many)" ] && [ "$(norms "$one")" = "$(norms many)" ] || { echo "norms differ"; exit 1; }
}
models="mlp resnet8"
[ -n "$SAN" ] || models="mlp resnet8 vit-micro bert-tiny"
for model in $models; do
    for ranks in 1 2 3 4; do
        for micros in 1 2; do cell $model $ranks $micros threads --steps 5; done
    done
    cell $model 3 1 processes --steps 5
    cell $model 2 2 processes --steps 5
    cell $model 4 2 threads --epochs 1
    cell $model 3 2 processes --epochs 1
done
