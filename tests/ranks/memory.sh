# Ranks of one machine are counted together before they start, whoever starts them: each would fit, eight do not. Sizes
# follow what this machine has; nothing of it is taken, since every run is refused before it starts or only explained.
. "$ROOT/tests/ranks/lib.sh"
[ -z "${SAN:-}" ] || { echo "a sanitizer maps more than this test allows"; exit 77; }
usable=$("$STRETTO" doctor | sed -n 's/.* memory  *\([0-9.]*\) \([MG]\)iB usable.*/\1 \2/p' | awk '{ printf "%.0f", $1 * ($2 == "G" ? 1024 : 1) }')
[ "${usable:-0}" -ge 4096 ] || { echo "less than 4 GiB of memory is usable here"; exit 77; }
ulimit -v $((usable * 1024 / 4)) # should the check be missing: no rank gets the memory, and the machine keeps its own
model="--model resnet20 --threads 1 --micro-batches 1 --steps 1"
# of_ranks COUNT: the options of that many ranks with a quarter of the machine's memory each
samples=$((usable * 10 / 4 / 16)) # a sample takes some 1.6 MiB
of_ranks() { echo "$model --batch $((samples * $1)) --data synthetic:size=32,channels=3,count=$((samples * $1)),test_count=8"; }
refused() { # WHAT COMMAND...
    what=$1
    shift
    echo "$what"
    code 5 timeout -k 5 100 "$@"
    says err 'the 8 ranks of this machine would need'
    says err 'largest at the peak'
    [ ! -e run ] || { echo "the run's folder was made"; exit 1; }
}
eight=$(of_ranks 8)
# shellcheck disable=SC2046,SC2086
{
    code 0 "$STRETTO" explain --quiet $(of_ranks 1)
    code 0 "$STRETTO" explain --quiet -n 2 $(of_ranks 2)
    refused "explain" "$STRETTO" explain --quiet -n 8 $eight
    refused "the launcher" "$STRETTO" train -n 8 $eight --out run
    refused "threads" "$STRETTO" train -n 8 --spawn threads $eight --out run
    refused "explain, threads" "$STRETTO" explain --quiet -n 8 --strategy dp $eight
    refused "Open MPI" env OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=3 \
        OMPI_COMM_WORLD_LOCAL_SIZE=8 "$STRETTO" train $eight --out run
    refused "srun" env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=3 \
        SLURM_STEP_TASKS_PER_NODE=8 SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 "$STRETTO" train $eight --out run
    refused "torchrun" env TORCHELASTIC_RUN_ID=x RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 \
        "$STRETTO" train $eight --out run

    # Of 16 ranks on two machines eight are here; a quarter of eight would fit.
    two="--batch $((samples * 16)) --data synthetic:size=32,channels=3,count=$((samples * 16)),test_count=8"
    refused "a node of two" "$STRETTO" explain --quiet --nodes 2 --node-rank 1 --init tcp://127.0.0.1:1 -n 8 $model $two
    code 0 "$STRETTO" explain --quiet --nodes 8 --node-rank 1 --init tcp://127.0.0.1:1 -n 1 $eight

    # --memory-limit is one rank's, and stands in for what this machine has: a plan for another one can be looked at.
    code 0 "$STRETTO" explain --quiet -n 8 $eight --memory-limit $((usable / 2))M
    code 0 "$STRETTO" explain --quiet -n 8 $eight --memory-limit 1000T
    code 5 "$STRETTO" explain --quiet -n 8 $eight --memory-limit $((usable / 8))M
    says err 'a rank would need .*, --memory-limit is'
}

# By hand nobody says how many are here: they learn it as they meet.
jobs=
for rank in 0 1 2 3 4 5 6 7; do
    # shellcheck disable=SC2086
    train $eight --rank $rank --world-size 8 --init "file://$PWD/rendezvous" --out run >out$rank 2>err$rank &
    jobs="$jobs $!"
done
rank=0
for job in $jobs; do
    wait "$job"
    got=$?
    [ $got = 5 ] || { echo "by hand, rank $rank: exit code $got, not 5"; cat err$rank; exit 1; }
    says err$rank 'the 8 ranks of this machine would need'
    rank=$((rank + 1))
done
[ ! -e run/metrics.jsonl ] || { echo "trained all the same"; exit 1; }
