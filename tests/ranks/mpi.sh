# mpirun starts ranks that need no option: they meet by the job's own name. Inside the launcher's ranks its variables do not count.
. "$ROOT/tests/ranks/lib.sh"
command -v mpirun >/dev/null || { echo "mpirun is not installed"; exit 77; }
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "mpirun is not Open MPI's"; exit 77; }
run() {
    wanted=$1
    shift
    code "$wanted" mpirun --allow-run-as-root --oversubscribe --bind-to none -np 3 "$@"
}
run 0 "$probe"
says out '^rank 2 of 3, local 2 of 3, node 0 of 1, 3 on this machine, attempt -, Open MPI: OMPI_COMM_WORLD_RANK 2'
run 0 "$probe" --init "file://$PWD/rendezvous"
run 2 "$probe" --rank 5 --world-size 6
says err 'contradicts Open MPI'
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 code 0 "$probe"
OMPI_COMM_WORLD_RANK=0 code 2 "$probe"
says err 'OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not'
# Output that mpirun passes on is lines, also where it gives rank 0 a terminal of its own.
run 0 "$STRETTO" train --model mlp --threads 1 --batch 24 --steps 4 --log-every 1 --eval-every never --save-every never --out run
says out 'step 4/4'
! grep -q "$(printf '\033')" out || { echo "a progress bar in the output of mpirun"; exit 1; }
# What all ranks refuse is said once; what one of them alone refuses is said, too.
for words in "--model nothing" "--data mnist:/nowhere" "--batch 7 --micro-batches 3"; do
    # shellcheck disable=SC2086
    code "$(timeout 60 "$STRETTO" explain -n 3 $words >out 2>err; echo $?)" \
        mpirun --allow-run-as-root --oversubscribe --bind-to none -np 3 "$STRETTO" train $words --out refused
    [ "$(grep -c '^stretto: error' err)" = 1 ] || { echo "$words: said $(grep -c '^stretto: error' err) times"; cat err; exit 1; }
done
# shellcheck disable=SC2016
code 2 mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 sh -c \
    '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && model=nothing || model=mlp; exec "$0" train --model $model --threads 1 --out alone' "$STRETTO"
says err "stretto: error: --model: 'nothing' is not allowed"
