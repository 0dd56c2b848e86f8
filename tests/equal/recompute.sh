#!/bin/sh
# The cells of --recompute, for build/equal: every schedule with every policy, against one device that keeps all; with ZeRO-3, too.
#
#     tests/equal/recompute.sh | build/equal
set -eu
schedules="mp pmp gpipe 1f1b eager-1f1b interleaved looped-bfs zb-h1 zb-h2 zbv dualpipe-v v-half v-min"

chunks_of() { # SCHEDULE: chunks a rank holds
    case $1 in
    interleaved | looped-bfs | zbv | dualpipe-v | v-half | v-min) echo 2 ;;
    *) echo 1 ;;
    esac
}

cell() { # SCHEDULE STAGES REPLICAS MICRO-BATCHES OPTIONS: a cell for each policy
    for policy in always except-last always:block except-last:block; do
        echo "$(($2 * $3)) $5 --strategy $1 --stages $2 --replicas $3 --micro-batches $4 --recompute $policy | $5 --deal $3x$4"
    done
}

for schedule in $schedules; do
    for micros in 1 3 4; do
        for stages in 1 2 4; do
            cell "$schedule" $stages 1 $micros "--model vit-micro --device ref --data synthetic --steps 3 --batch 12"
            [ $((stages * $(chunks_of "$schedule"))) -gt 3 ] || # an mlp has three layers
                cell "$schedule" $stages 1 $micros "--model mlp --device ref --data synthetic --steps 3 --batch 12"
        done
    done
    # Replicas with statistics of their own and of all; then with a short last step, in which some micro-batches are empty.
    for share in "" " --sync-bn"; do
        cell "$schedule" 2 2 3 "--model resnet8 --data synthetic --steps 3 --batch 12$share"
        cell "$schedule" 2 2 3 "--model resnet8 --data synthetic:count=17,test_count=4 --steps 4 --batch 12$share"
    done
done

# Parameters that are gathered for the second forward, too; and gradients that are scattered by blocks.
zero() { # SCHEDULE STAGES SAMPLES
    for stage in 2 3 '3 --zero-keep 300'; do
        for way in local scatter; do
            for policy in always except-last always:block except-last:block; do
                base="--model mlp --device ref --batch 12 --steps 3 --warmup 0 --data synthetic:count=$3,test_count=4,size=8,channels=1"
                sum=replica
                [ $way = local ] || sum=replicas-first
                echo "$(($2 * 2)) $base --strategy $1 --stages $2 --replicas 2 --micro-batches 3 --zero-stage $stage" \
                    "--zero-accumulate $way --bucket-size 8KiB --recompute $policy | $base --deal 2x3 --sum $sum"
            done
        done
    done
}
for schedule in $schedules; do
    for samples in 48 25; do zero "$schedule" $((2 / $(chunks_of "$schedule"))) $samples; done
done

# Ranks that have the whole model.
for options in "" " --sync-bn"; do
    base="--model resnet8 --data synthetic:count=17,test_count=4,size=8 --steps 4 --batch 12$options"
    for strategy in ddp zero1 zero3; do
        echo "2 $base --strategy $strategy --micro-batches 3 --recompute always:block | $base --deal 2x3"
    done
done
