# A program that --save-program writes is one that --program reads: the same plan, whatever the options.
set -u
failed=0
model="--model resnet8"
check() {
    rm -f program.txt again.txt
    # shellcheck disable=SC2086
    "$STRETTO" explain $model --device ref --threads 1 --quiet "$@" --save-program program.txt 2>err
    got=$?
    [ "$got" = 0 ] || { echo "$*: exit $got"; cat err; failed=1; return; }
    # shellcheck disable=SC2086
    "$STRETTO" explain $model --device ref --threads 1 --quiet "$@" --program program.txt --save-program again.txt 2>err
    got=$?
    [ "$got" = 0 ] || { echo "$*: its own program is refused: exit $got"; cat err; failed=1; return; }
    cmp program.txt again.txt || { echo "$*: read again, it is another"; failed=1; }
}

for bn in off on; do
    for sum in replica tree replicas-first; do
        for deal in 1x4 3x2 16x8; do
            check --sync-bn $bn --sum $sum --deal $deal --batch $((${deal%x*} * ${deal#*x}))
        done
        check --sync-bn $bn --sum $sum -n 3 --batch 24
    done
    check --sync-bn $bn -n 4 --micro-batches 3 --batch 24
    check --sync-bn $bn -n 4 --micro-batches 2 --batch 24 --sum tree --strategy ddp
    check --sync-bn $bn -n 2 --micro-batches 4 --batch 24 --sum tree --strategy dp
done
for schedule in gpipe 1f1b interleaved zb-h1 zbv; do
    check --strategy $schedule --stages 2 --micro-batches 4 --batch 24
    check --strategy $schedule --stages 2 --replicas 2 --micro-batches 4 --batch 24
done
for replicas in 1 2; do
    check --strategy pipedream --stages 3 --replicas $replicas --batch 24
    check --strategy pipedream --stages 3 --replicas $replicas --batch 24 --vertical-sync
    check --strategy pipedream-2bw --stages 3 --replicas $replicas --micro-batches 4 --batch 24
done
# shellcheck disable=SC2086
{
    "$STRETTO" explain $model --device ref --threads 1 --quiet --strategy pipedream --stages 3 --batch 24 --save-program ages.txt 2>err || failed=1
    "$STRETTO" explain $model --device ref --threads 1 --strategy pipedream --stages 3 --batch 24 --vertical-sync --program ages.txt >out 2>err
}
[ $? = 2 ] && grep -q 'this run is with --vertical-sync' err || { echo "--vertical-sync and a program without it: $(cat err)"; failed=1; }
# Small parameters that are kept, and parameters that stages share, whole and in slices.
for accumulate in local scatter; do
    check -n 2 --micro-batches 2 --batch 8 --zero-stage 3 --zero-accumulate $accumulate --zero-keep 1KiB
done
model="--model bert-tiny --data synthetic:kind=tokens,seq=16,vocab=200,predictions=3,count=40,test_count=10"
for schedule in 1f1b zbv auto; do
    for stage in 1 2 3; do
        for accumulate in local scatter; do
            check --strategy $schedule --stages 2 --replicas 2 --micro-batches 2 --batch 8 --zero-stage $stage \
                --zero-accumulate $accumulate
        done
    done
done
exit $failed
