# The cells of sync policy zero, for build/equal: every schedule on 1 and 2 stages, 2 and 4 replicas as far as 4 ranks go, 1, 3 and
# 4 micro-batches, every stage and both ways to add up; whole steps, and epochs whose last step leaves micro-batches empty.
#     sh tests/equal/zero.sh | build/equal
schedules='mp pmp gpipe 1f1b eager-1f1b interleaved looped-bfs zb-h1 zb-h2 zbv dualpipe-v v-half v-min'

# strategy and its options, ranks, replicas
cells() {
    for micros in 1 3 4; do
        for samples in 0 25 37 50; do
            batch=$(($3 * micros * 2))
            base="--model mlp --device ref --batch $batch --steps 3 --warmup 0"
            [ $samples = 0 ] || base="$base --data synthetic:count=$samples,test_count=8,size=8,channels=1"
            for zero in 1 2 3 '3 --zero-prefetch 0' '3 --zero-keep 300'; do
                for way in local scatter; do
                    sum=replica
                    [ $way = local ] || [ "$zero" = 1 ] || sum=replicas-first
                    echo "$2 $base --micro-batches $micros --strategy $1 --zero-stage $zero --zero-accumulate $way --bucket-size 8KiB" \
                        "| $base --strategy single --deal $3x$micros --sum $sum"
                done
            done
        done
    done
}

for replicas in 2 4; do
    cells ddp $replicas $replicas
    for schedule in $schedules; do
        for stages in 1 2; do
            [ $((stages * replicas)) -gt 4 ] || cells "$schedule --stages $stages" $((stages * replicas)) $replicas
        done
    done
done

# Parameters that two stages share, on two ranks and on one.
tokens=synthetic:kind=tokens,seq=16,vocab=200,predictions=3
for schedule in $schedules; do
    for micros in 1 3; do
        for zero in 1 2 3; do
            for way in local scatter; do
                sum=replica
                [ $way = local ] || [ $zero = 1 ] || sum=replicas-first
                base="--model bert-tiny --device ref --data $tokens --batch $((micros * 4)) --steps 3 --warmup 0"
                echo "4 $base --micro-batches $micros --strategy $schedule --stages 2 --replicas 2 --zero-stage $zero" \
                    "--zero-accumulate $way | $base --strategy single --deal 2x$micros --sum $sum"
            done
        done
    done
done
