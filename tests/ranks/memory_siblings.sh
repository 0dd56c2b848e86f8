# Ranks in a memory cgroup are judged once, and as explain judges them: what a rank has taken is not missing for the others.
. "$ROOT/tests/ranks/lib.sh"
[ -z "${SAN:-}" ] || { echo "a sanitizer takes more memory than this test allows"; exit 77; }
# A cgroup below the one of this shell, with version 1 of the controller or version 2.
group=
for folder in "/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)" /sys/fs/cgroup/memory \
    "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)" /sys/fs/cgroup; do
    mkdir "$folder/stretto-test-$$" 2>/dev/null || continue
    group=$folder/stretto-test-$$
    limit=$group/memory.max
    [ -e "$limit" ] || limit=$group/memory.limit_in_bytes
    [ -w "$limit" ] && echo 1000000000 2>/dev/null >"$limit" && sh -c "echo \$\$ >'$group/cgroup.procs'" 2>/dev/null && break
    rmdir "$group"
    group=
done
[ -n "$group" ] || { echo "no memory cgroup can be made here"; exit 77; }
trap 'while ! rmdir "$group" 2>/dev/null && [ -d "$group" ] && [ $((tries = ${tries:-0} + 1)) -lt 50 ]; do sleep 0.1; done' EXIT
# within MEGABYTES COMMAND...
within() {
    echo "${1}000000" >"$limit" || { echo "no limit of $1 MB"; exit 1; }
    shift
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" timeout -k 5 100 "$@"
}
model="--model resnet8 --strategy zbv --micro-batches 4 --batch 64 --steps 2 --threads 1 --eval-every never"
by_hand='for rank in 0 1 2 3; do
    "$0" train "$@" --rank $rank --world-size 4 --init "file://$PWD/rendezvous" --out hand >out$rank 2>err$rank &
    pids="${pids:-} $!"
done
code=0
for pid in $pids; do wait $pid || code=$?; done
exit $code'
by_variables='for rank in 0 1 2 3; do
    RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=x GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
        "$0" train "$@" --init "file://$PWD/rendezvous" --out variables >out$rank 2>err$rank &
    pids="${pids:-} $!"
done
code=0
for pid in $pids; do wait $pid || code=$?; done
exit $code'
# shellcheck disable=SC2086
{
    # The least that explain takes, to 2 MB; there the ranks run, however they are started.
    fits=50
    until within $fits "$STRETTO" explain --quiet -n 4 $model >out 2>err; do
        [ $fits -lt 200 ] || { echo "explain refuses 200 MB"; cat err; exit 1; }
        says err 'the 4 ranks of this machine would need'
        fits=$((fits + 2))
    done
    echo "explain: $fits MB"
    code 5 within $((fits - 4)) "$STRETTO" train -n 4 $model --out run
    says err 'the 4 ranks of this machine would need'
    [ ! -e run ] || { echo "a refused run left a folder"; exit 1; }
    fits=$((fits + 2)) # what is left there is never quite the same
    code 0 within $fits "$STRETTO" explain --quiet -n 4 $model
    for more in 0 20; do
        rm -rf run threads hand variables rendezvous
        code 0 within $((fits + more)) "$STRETTO" train -n 4 $model --out run
        code 0 within $((fits + more)) "$STRETTO" train -n 4 --spawn threads $model --out threads
        within $((fits + more)) sh -c "$by_hand" "$STRETTO" $model || { echo "by hand in $((fits + more)) MB"; cat err0 err3; exit 1; }
        rm -f rendezvous
        within $((fits + more)) sh -c "$by_variables" "$STRETTO" $model || { echo "by variables in $((fits + more)) MB"; cat err0 err3; exit 1; }
        same run threads
        same run hand
        same run variables
    done
    # Where it is too little, all ranks hear it from one of them, with the same figures.
    rm -rf hand rendezvous
    within 44 sh -c "$by_hand" "$STRETTO" $model && { echo "runs in 44 MB"; exit 1; }
    figures=$(sed -n 's/.*the 4 ranks of this machine would need \([^(]*MiB\).*/\1/p' err0)
    [ -n "$figures" ] || { echo "rank 0 does not say what is missing"; cat err0; exit 1; }
    says err0 'largest at the peak'
    for rank in 1 2 3; do
        grep -qF "the 4 ranks of this machine would need $figures" err$rank || { echo "rank $rank has other figures than $figures"; cat err$rank; exit 1; }
    done
    [ ! -e hand/metrics.jsonl ] || { echo "trained all the same"; exit 1; }
}
