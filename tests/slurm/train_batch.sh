# Training by job scripts: the one that `stretto launch --emit sbatch` writes, and an array whose tasks are the ranks.
. "$ROOT/tests/slurm/lib.sh"
options="--model mlp --threads 1 --steps 30 --eval-every never --save-every never --quiet"
"$STRETTO" train $options --deal 4x1 --batch 48 --out four || exit 1
"$STRETTO" launch --emit sbatch -n 2 --nodes 2 $options --batch 48 --out 'a run' >job || exit 1
id=$(sbatch --parsable job) || exit 1
finish "$id"
same four 'a run' || { cat stretto-*.log; exit 1; }
# without --out the folder has the job's name and number
"$STRETTO" launch --emit sbatch -n 2 --nodes 2 $options --batch 48 >job || exit 1
id=$(sbatch --parsable job) || exit 1
finish "$id"
same four "runs/stretto-mlp-$id"
"$STRETTO" train $options --deal 2x1 --batch 48 --out two || exit 1
for way in "" "srun "; do
    rm -rf array
    cat >job <<END
#!/bin/sh
#SBATCH --array=0,1 -n 1 -o log-%a
$way$STRETTO train $options --batch 48 --init file://$PWD/rendezvous --out $PWD/array
END
    finish "$(sbatch --parsable job)"
    same two array
done
# by hand, as scripts of PyTorch have it
rm -rf array
cat >job <<END
#!/bin/sh
#SBATCH --array=0,1 -n 1 -o log-%a
$STRETTO train $options --batch 48 --init file://$PWD/rendezvous --rank \$SLURM_ARRAY_TASK_ID --world-size \$SLURM_ARRAY_TASK_COUNT --out $PWD/array
END
finish "$(sbatch --parsable job)"
same two array
[ ! -e rendezvous ] || { echo "the file is left"; exit 1; }
