# The variables that torchrun and MPICH set, as they set them: ranks of one host need no option.
. "$ROOT/tests/ranks/lib.sh"
export TORCHELASTIC_RUN_ID=none MASTER_ADDR=localhost MASTER_PORT="$(free_port)" TORCHELASTIC_RESTART_COUNT=0
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1
RANK=1 LOCAL_RANK=1 "$probe" >out1 2>err1 &
RANK=0 LOCAL_RANK=0 code 0 "$probe"
wait $! || { cat err1; exit 1; }
says out1 '^rank 1 of 2, local 1 of 2, node 0 of 1, 2 on this machine, attempt -, torchrun'
unset TORCHELASTIC_RUN_ID WORLD_SIZE
export PMI_SIZE=2 MPI_LOCALNRANKS=2
PMI_RANK=1 MPI_LOCALRANKID=1 "$probe" >out1 2>err1 &
PMI_RANK=0 MPI_LOCALRANKID=0 code 0 "$probe"
wait $! || { cat err1; exit 1; }
says out1 '^rank 1 of 2, local 1 of 2, node 0 of 1, 2 on this machine, attempt -, MPICH'
