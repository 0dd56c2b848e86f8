# Real training under srun: the parameters of one device that is dealt the same micro-batches.
. "$ROOT/tests/slurm/lib.sh"
hash() { sed -n 's/^ *"param_hash": "\([^"]*\)".*/\1/p' "$1/summary.json"; }
options="--model mlp --threads 1 --steps 30 --eval-every never --quiet"
"$STRETTO" train $options --deal 3x1 --batch 66 --out one || exit 1
code 0 srun -N 1 -n 3 "$STRETTO" train $options --batch 66 --out three
[ -n "$(hash one)" ] && [ "$(hash one)" = "$(hash three)" ] || { echo "$(hash one) and $(hash three) differ"; exit 1; }
