# bert-tiny on real text by the command line: HDF5 shards, evaluation on the test rows, and a resume that ends alike.
# (That its loss falls steadily: tests/unit/exec/test_text.c.)
. "$ROOT/tests/train/lib.sh"
need_data wiki-mini
bert() { "$STRETTO" train --model bert-tiny --data "wiki:$shared/data/wiki-mini" --batch 8 --steps 6 --quiet "$@" 2>err; }
bert --out run
code=$?
if grep -q HDF5 err; then cat err; exit 77; fi
[ $code = 0 ] || { cat err; exit 1; }
key() { sed -n "s/^ *\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$1/summary.json"; }
awk -v first="$(key run loss_first)" -v test="$(key run eval_loss)" 'BEGIN { exit !(first > 10 && first < 12 && test > 9 && test < 12) }' ||
    { echo "loss $(key run loss_first), test loss $(key run eval_loss)"; exit 1; }
bert --out broken --save-every 3 --eval-every never || { cat err; exit 1; }
rm -r broken/checkpoints/step-*6
"$STRETTO" train --resume --out broken --quiet || exit 1
[ -n "$(key run param_hash)" ] && [ "$(key run param_hash)" = "$(key broken param_hash)" ] ||
    { echo "resumed: $(key broken param_hash), not $(key run param_hash)"; exit 1; }
