# The script that `stretto launch --emit sbatch` writes is taken by sbatch as it is, and srun finds all ranks.
. "$ROOT/tests/slurm/lib.sh"
"$STRETTO" launch --emit sbatch -n 2 --nodes 2 --time-limit 60 --out 'a run' --data "mnist:it's here" >job || exit 1
sed -i "s|$STRETTO|$probe|" job # a rank that trains nothing
id=$(sbatch --parsable job) || exit 1
finish "$id"
log=$(ls stretto-*-"$id".log)
for rank in 0 1 2 3; do says "$log" "^rank $rank of 4, local [01] of 2, node [01] of 2"; done
SLURM_JOB_NODELIST='n[08-10],x' SLURM_STEP_ID=0 SLURM_JOB_ID=7 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_NODEID=1 \
    SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE='1(x4)' SLURM_STEP_NUM_NODES=4 "$STRETTO" doctor >out
says out '1 of 4, local 0 of 1, node 1 of 4'
says out '4 nodes, n08 to x'
says out 'the file .stretto-7.0.0 in the working folder'
