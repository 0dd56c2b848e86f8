# Threads of a rank under Slurm: those of --cpus-per-task, also in the script that --emit sbatch writes.
. "$ROOT/tests/slurm/lib.sh"
unset OMP_NUM_THREADS
cores=$(nproc)
[ "$cores" -gt 1 ] || { echo "one core: every rank has one thread"; exit 77; }
code 0 srun -N 1 -n 2 -c 1 "$STRETTO" doctor
says out 'threads is 1 (from the launcher) by default'
code 0 srun -N 1 -n 1 -c 1 "$STRETTO" doctor
says out 'threads is 1 (from the launcher) by default'
code 0 srun -N 1 -n 2 -c 2 "$STRETTO" doctor
says out 'threads is 2 (from the launcher) by default'
code 0 srun -N 1 -n 2 -c 2 "$STRETTO" train --model mlp --batch 24 --steps 2 --quiet --out run
says run/summary.json '"threads": 2,'
# a step of one core a task, in a job that has more
code 0 env SLURM_CPUS_PER_TASK=2 srun -N 1 -n 4 -c 1 "$STRETTO" doctor
says out 'threads is 1 '
"$STRETTO" launch --emit sbatch --model mlp --batch 24 --steps 2 --threads 2 -n 2 --out emitted >given || exit 1
sed 's/--threads 2 *\\*$/\\/' given >job # what the script says of cores is enough
! grep -q -e '--threads' job || { cat job; exit 1; }
id=$(sbatch --parsable job) || exit 1
finish "$id"
says emitted/summary.json '"threads": 2,'
