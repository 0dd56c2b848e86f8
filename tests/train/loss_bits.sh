# Layouts that train to the same parameters tell the same losses, to the last bit and at every step: the order in which ranks and
# micro-batches come does not show in their sum. Short last steps too; a model with two losses too.
. "$ROOT/tests/train/lib.sh"
number() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$1"; } # FILE KEY
losses() { # RUN: a line a step, and what stands in the summary
    sed -n 's/.*"kind":"train","step":\([0-9]*\),.*"loss":\([^,}]*\).*/\1 \2/p' "$1/metrics.jsonl"
    number "$1/summary.json" loss_first
    number "$1/summary.json" loss_last
}
# layout NAME OPTION...
# shellcheck disable=SC2086
layout() {
    name=$1
    shift
    "$STRETTO" train $common "$@" --threads 1 --log-every 1 --quiet --out "$name" 2>err || { cat err; exit 1; }
    losses "$name" >"$name.losses"
}
# same NAME: as the run called one
same() {
    [ "$(number "$1/summary.json" param_hash)" = "$(number one/summary.json param_hash)" ] || { echo "$1: other parameters"; exit 1; }
    diff one.losses "$1.losses" || { echo "$1: other losses"; exit 1; }
}
for deal in 2x3 3x2; do
    rm -rf one dp pipe back zero
    common="--model mlp --data synthetic:count=400,test_count=8,size=8 --batch 36 --steps 40 --eval-every never --save-every never"
    layout one --deal $deal
    [ "$(wc -l <one.losses)" = 42 ] || { echo "not a loss for each step"; cat one.losses; exit 1; }
    replicas=${deal%x*} micros=${deal#*x}
    layout dp --strategy ddp -n "$replicas" --micro-batches "$micros"
    layout pipe --strategy 1f1b --stages 2 --replicas "$replicas" -n $((2 * replicas)) --micro-batches "$micros" --spawn threads
    layout back --strategy zbv --stages 2 --replicas "$replicas" -n $((2 * replicas)) --micro-batches "$micros" --spawn threads
    layout zero --strategy zero3 -n "$replicas" --micro-batches "$micros" --spawn threads
    for name in dp pipe back zero; do same $name; done
done
common="--model bert-tiny --data synthetic:count=40,test_count=8,kind=tokens,seq=16,vocab=200,predictions=3 --batch 12 --steps 8 --eval-every never --save-every never"
rm -rf one dp pipe
layout one --deal 2x3
layout dp --strategy dp -n 2 --micro-batches 3
layout pipe --strategy gpipe --stages 2 --replicas 2 -n 4 --micro-batches 3 --spawn threads
for name in dp pipe; do same $name; done
