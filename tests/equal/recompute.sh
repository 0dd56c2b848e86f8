#!/bin/sh
# The cells of --recompute, for build/equal: every schedule with every policy, against one device that keeps all.
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
    for policy in always except-last; do
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
