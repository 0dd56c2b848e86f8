# The cells of --strategy auto, for build/equal: 2 and 4 stages, 1, 3, 4 and 8 micro-batches, chunks left open and named, whole
# steps and epochs whose last step is short, replicas, shared statistics, recomputation; and memory limits from the least that one
# micro-batch needs to more than any order takes.
#     sh tests/equal/auto.sh | build/equal
# cell RANKS REPLICAS MICRO-BATCHES MODEL OPTION...
cell() {
    ranks=$1 replicas=$2 micros=$3 model=$4
    shift 4
    base="--model $model --device ref --data ${data:-synthetic:count=64,test_count=8,size=8} --batch $((replicas * micros * 2)) --warmup 0 ${length:---steps 3} ${both:-}"
    echo "$ranks $base --micro-batches $micros --strategy auto --stages $((ranks / replicas)) $* | $base --strategy single --deal ${replicas}x$micros"
}
for micros in 1 3 4 8; do
    cell 2 1 $micros mlp
    for stages in 2 4; do
        cell $stages 1 $micros resnet8
        cell $stages 1 $micros resnet8 --virtual 1
        cell $stages 1 $micros resnet8 --virtual 2
    done
    cell 4 2 $micros resnet8
    both=--sync-bn cell 4 2 $micros resnet8
    cell 4 2 $micros resnet8 --recompute always
    cell 2 1 $micros resnet8 --recompute except-last
    for count in 25 37; do
        data=synthetic:count=$count,test_count=8,size=8 length='--epochs 1' cell 2 1 $micros resnet8
        data=synthetic:count=$count,test_count=8,size=8 length='--epochs 1' cell 4 2 $micros resnet8
    done
done
for limit in 1400 1450 1500 1550 1600 1700 1800 2000; do
    for micros in 3 8; do
        for stages in 2 4; do cell $stages 1 $micros resnet8 --memory-limit ${limit}KiB; done
    done
    cell 2 1 8 resnet8 --memory-limit ${limit}KiB --virtual 2
done
