# A rank of a training under srun is killed: the others name it and end with 4. The job script, started again as Slurm does after a
# requeue, goes on from the checkpoint to the parameters of an undisturbed run.
. "$ROOT/tests/slurm/lib.sh"
options="--model mlp --threads 1 --steps 100 --save-every 20 --eval-every never --quiet"
"$STRETTO" train $options --deal 4x1 --batch 48 --out four || exit 1
"$STRETTO" launch --emit sbatch -n 2 --nodes 2 $options --batch 48 --out run >job || exit 1
id=$(STRETTO_FAULT=rank=2,step=50,at=REDUCE,do=kill sbatch --parsable job) || exit 1
finish "$id"
log=stretto-mlp-$id.log
for rank in 0 1 3; do says "$log" "rank $rank ends: rank 2 .*is lost"; done
kept=$(head -n 1 run/metrics.jsonl)
id=$(SLURM_RESTART_COUNT=1 sbatch --parsable job) || exit 1
finish "$id"
[ "$(head -n 1 run/metrics.jsonl)" = "$kept" ] || { echo "it began anew"; cat stretto-*.log; exit 1; }
same four run
