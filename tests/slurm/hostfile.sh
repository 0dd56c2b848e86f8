# The list that `srun hostname` gives is a host file; a launcher on each node takes its place from --node-rank.
. "$ROOT/tests/slurm/lib.sh"
srun -N 2 --ntasks-per-node=2 sh -c 'echo $SLURMD_NODENAME' >hosts || exit 1
code 0 srun -N 2 -n 2 sh -c "env -u SLURM_STEP_ID $probe --hostfile hosts --node-rank \$SLURM_NODEID --init file://$PWD/rendezvous"
says out '^rank 0 of 4, local 0 of 2, node 0 of 2'
says out '^\[rank 3\] rank 3 of 4, local 1 of 2, node 1 of 2'
