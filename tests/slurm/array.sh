# An array job with a rendezvous is a job of ranks, with or without srun, also by hand; without one it is a sweep.
. "$ROOT/tests/slurm/lib.sh"
for way in "" "srun "; do
    cat >job <<END
#!/bin/sh
#SBATCH --array=2-6:2 -n 1 -o log-%a
$way$probe --init file://$PWD/rendezvous
END
    rm -f log-*
    finish "$(sbatch --parsable job)"
    for rank in 0 1 2; do
        says log-$((2 + 2 * rank)) "^rank $rank of 3, local 0 of 1, node $rank of 3, .* Slurm array"
    done
done
cat >job <<END
#!/bin/sh
#SBATCH --array=0,1 -n 1 -o log-%a
$probe --init file://$PWD/rendezvous --rank \$SLURM_ARRAY_TASK_ID --world-size \$SLURM_ARRAY_TASK_COUNT
END
finish "$(sbatch --parsable job)"
says log-1 '^rank 1 of 2'
