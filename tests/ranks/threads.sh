# Threads of a rank by default: usable cores / ranks of the host, whoever starts the ranks; doctor says the same.
. "$ROOT/tests/ranks/lib.sh"
unset OMP_NUM_THREADS OMP_THREAD_LIMIT LOCAL_WORLD_SIZE LOCAL_RANK RANK WORLD_SIZE
cores=$(nproc)
half=$((cores / 2))
[ $half -gt 0 ] || { echo "one core: every rank has one thread"; exit 77; }
threads_of() { sed -n 's/^ *"threads": \([0-9]*\).*/\1/p' "$1/summary.json"; }
# has RUN THREADS
has() { [ "$(threads_of "$1")" = "$2" ] || { echo "$1: $(threads_of "$1") threads, not $2"; cat err err1; exit 1; }; }
job="--model mlp --batch 24 --steps 2 --eval-every never --save-every never --quiet"
# pair RUN OPTION...: ranks 0 and 1, in $by what tells them so: RANK or --rank.
pair() {
    run=$1
    shift
    one= zero=
    [ "$by" = RANK ] || one='--rank 1 --world-size 2' zero='--rank 0 --world-size 2'
    ([ "$by" != RANK ] || export RANK=1 LOCAL_RANK=1 WORLD_SIZE=2; train $job $one "$@" --out "$run" >out1 2>err1) &
    ([ "$by" != RANK ] || export RANK=0 LOCAL_RANK=0 WORLD_SIZE=2; train $job $zero "$@" --out "$run" >out 2>err) || { cat err; exit 1; }
    wait $! || { cat err1; exit 1; }
}
train $job --out single && has single "$cores"
train $job -n 2 --out launcher && has launcher $half
train $job -n 2 --spawn threads --out spawned && has spawned $half
printf 'localhost slots=2\n' >hosts
train $job --hostfile hosts --out hostfile && has hostfile $half
"$STRETTO" explain $job -n 2 --json | grep -q "\"threads\": $half,"  || { echo "explain -n 2 has other threads"; exit 1; }
"$STRETTO" doctor >out
says out "threads is $cores ($cores usable cores / 1 local rank) by default"
# torchrun, and its OMP_NUM_THREADS
by=RANK
(
    export TORCHELASTIC_RUN_ID=none MASTER_ADDR=localhost MASTER_PORT="$(free_port)" GROUP_RANK=0 GROUP_WORLD_SIZE=1 LOCAL_WORLD_SIZE=2 OMP_NUM_THREADS=1
    pair torchrun
    has torchrun $half
    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "$STRETTO" doctor >out
    says out "threads is $half ($cores usable cores / 2 local ranks) by default"
    says out 'it does not count: --threads does, by default usable cores / local ranks'
    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 OMP_THREAD_LIMIT=$half code 0 "$STRETTO" doctor
) || exit 1
# variables and options by hand: where it is known who is here
LOCAL_WORLD_SIZE=2 pair variables --init "file://$PWD/rendezvous"
has variables $half
by=options
pair loopback --init "tcp://127.0.0.1:$(free_port)"
has loopback $half
! grep -q 'threads each' err err1 || { cat err err1; exit 1; }
# and where it is known too late, it is said
pair late --init "file://$PWD/rendezvous"
has late "$cores"
says err "2 ranks of host .* have $cores threads each, for $cores cores"
says err "give --threads $half, or set LOCAL_WORLD_SIZE to 2"
! grep -q 'threads each' err1 || { echo "said twice"; cat err1; exit 1; }
# more threads than cores: said once, by whoever starts the ranks, with the numbers and the option
code 0 "$STRETTO" train $job -n 2 --threads "$cores" --out crowded --overwrite
[ "$(grep -c 'they take turns' err)" = 1 ] || { echo "not said once"; cat err; exit 1; }
says err "2 ranks x $cores threads = $((2 * cores)) threads for $cores usable cores"
says err "^  --threads $half gives each thread a core"
code 0 "$STRETTO" train $job -n 2 --threads "$half" --out crowded --overwrite
! grep -q 'they take turns' err || { cat err; exit 1; }
command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI' || exit 0
LIMIT=120 code 0 timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 "$STRETTO" train $job --out mpi
has mpi $half
