# A batch script: outside srun one process, or a launcher; inside srun ranks.
. "$ROOT/tests/slurm/lib.sh"
cat >job <<END
#!/bin/sh
#SBATCH -N 2 --ntasks-per-node=2 -o log
echo outside:
$probe -n 2 || echo failed
echo inside:
srun $probe || echo failed
END
finish "$(sbatch --parsable job)"
! grep -q failed log || { cat log; exit 1; }
says log '^\[rank 1\] rank 1 of 2, local 1 of 2, node 0 of 1'
says log '^rank 3 of 4, local 1 of 2, node 1 of 2, .* srun:'
