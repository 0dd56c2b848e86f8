# The predicted peak is within 5 % or 16 MiB of the measured one, for each model, with one and with several micro-batches.
. "$ROOT/tests/train/lib.sh"
slow_build
first() { sed -n "s/^ *\"$1\": \[\([0-9]*\)\],*/\1/p" run/summary.json; }
check() {
    rm -rf run
    "$STRETTO" train --steps 4 --save-every never --out run --quiet "$@" || exit 1
    echo "$* measured $(first peak_bytes) predicted $(first predicted_peak_bytes)"
    awk -v have="$(first peak_bytes)" -v said="$(first predicted_peak_bytes)" 'BEGIN {
        off = have > said ? have - said : said - have; exit !(off <= 16 * 1048576 || off <= 0.05 * have) }' || exit 1
}
for model in mlp lenet resnet8 resnet20; do
    check --model $model --data synthetic:size=32,channels=3,count=512,test_count=64
    check --model $model --data synthetic:size=32,channels=3,count=512,test_count=64 --micro-batches 4
done
check --model resnet18-cifar --data synthetic:size=32,channels=3,count=256,test_count=64 --batch 32
check --model vit-micro --data synthetic:size=32,channels=3,count=512,test_count=64
check --model vit-tiny --data synthetic:size=32,channels=3,count=256,test_count=64 --patch 4 --batch 32 --micro-batches 2
check --model bert-tiny --data synthetic:count=256,test_count=64 --batch 16
