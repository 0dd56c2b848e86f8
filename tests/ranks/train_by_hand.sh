# Ranks started by hand: they meet at a file or an address, and train as the launcher's; what they disagree on, who is
# missing, and who is there twice is said by every one of them.
. "$ROOT/tests/ranks/lib.sh"
# by_hand CODE COUNT OPTION...: ranks 0 to COUNT-1 of three; $odd are options of rank 1 alone; output in outN, errN
odd=
by_hand() {
    wanted=$1 count=$2
    shift 2
    rm -rf run
    jobs=
    for rank in $(seq 0 $((count - 1))); do
        more=
        [ "$rank" != 1 ] || more=$odd
        # shellcheck disable=SC2086
        train $small "$@" --rank "$rank" --world-size 3 $more --out run >out$rank 2>err$rank &
        jobs="$jobs $!"
    done
    rank=0
    for job in $jobs; do
        wait "$job"
        got=$?
        [ $got = "$wanted" ] || { echo "rank $rank: exit code $got, not $wanted"; cat err$rank; exit 1; }
        rank=$((rank + 1))
    done
}
all_say() { for rank in 0 1 2; do says err$rank "$1"; done; }
whole undisturbed -n 3 $small
by_hand 0 3 --init "file://$PWD/rendezvous"
ends_as run "$want"
says run/summary.json '"comm": "shm"' # as they learn that all are here, they need nothing between hosts
[ ! -e rendezvous ] || { echo "the rendezvous file is still there"; exit 1; }
"$STRETTO" key job.key >/dev/null || exit 1
by_hand 0 3 --init "tcp://127.0.0.1:$(free_port)" --key job.key
ends_as run "$want"
# by the four variables that PyTorch's users set, and nothing else
rm -rf run
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$(free_port)" WORLD_SIZE=3
for rank in 1 2; do
    RANK=$rank train $small --out run >out$rank 2>err$rank &
    eval "job$rank=$!"
done
RANK=0 code 0 train $small --out run
wait $job1 && wait $job2 || { cat err1 err2; exit 1; }
unset MASTER_ADDR MASTER_PORT WORLD_SIZE
ends_as run "$want"
# one rank was told something else: field and both values, on every rank, before step 1
for row in lr:0.01:0.02 seed:0:5 model:mlp:resnet8 batch:24:48; do
    field=${row%%:*} rest=${row#*:}
    odd="--$field ${rest#*:}"
    by_hand 2 3 --init "file://$PWD/rendezvous"
    all_say "disagree on $field: rank 1 has '${rest#*:}', ranks 0 and 2 have '${rest%:*}'"
    [ ! -e run/metrics.jsonl ] || { echo "trained all the same"; exit 1; }
done
odd="--world-size 4"
by_hand 2 3 --init "tcp://127.0.0.1:$(free_port)" --key job.key
all_say 'rank 1 .* was started for a world of 4 ranks, the server for 3'
# another key is not let in, and rank 1 counts as missing
"$STRETTO" key other.key >/dev/null || exit 1
odd="--key other.key"
by_hand 4 3 --init "tcp://127.0.0.1:$(free_port)" --key job.key --join-limit 3
says err0 'rank 1 did not join'
odd=
# a rank that does not come
by_hand 4 2 --init "file://$PWD/rendezvous" --join-limit 1
says err0 'waiting for rank 2; 2 of 3 joined, --join-limit is 1 s'
says err0 'rank 2 did not join within 1 s; 2 of 3 joined'
says err1 'rank 2 did not join'
# one that fails alone (rank 0 opens the folder): the others hear of it and end
rm -rf run && mkdir run && echo '{}' >run/summary.json
for rank in 0 1 2; do
    train $small --rank $rank --world-size 3 --init "file://$PWD/rendezvous" --out run >out$rank 2>err$rank &
    eval "job$rank=$!"
done
wait $job0
[ $? = 2 ] || { echo "rank 0 did not refuse the folder"; cat err0; exit 1; }
says err0 'holds summary.json, but nothing that shows a run'
for rank in 1 2; do
    eval "wait \$job$rank"
    [ $? = 4 ] || { echo "rank $rank did not end as rank 0 failed"; cat err$rank; exit 1; }
    says err$rank 'rank 0 .* is lost: it gave up with exit code 2'
done
# one that comes twice: the first keeps the place, the job goes on
rm -rf run
for rank in 0 1; do
    train $small --rank $rank --world-size 3 --init "file://$PWD/rendezvous" --out run >out$rank 2>err$rank &
    eval "job$rank=$!"
done
sleep 1
code 2 train $small --rank 1 --world-size 3 --init "file://$PWD/rendezvous" --out run
says err 'rank 1 is taken by process'
code 0 train $small --rank 2 --world-size 3 --init "file://$PWD/rendezvous" --out run
wait $job0 && wait $job1 || { cat err0 err1; exit 1; }
ends_as run "$want"
