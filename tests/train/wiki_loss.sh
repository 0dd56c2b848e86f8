# bert-tiny's loss on real text falls steadily: each quarter of the run has a lower mean than the one before.
# 60 steps: afterwards the loss falls by less in a quarter than batches of this size differ.
. "$ROOT/tests/train/lib.sh"
slow_build
need_data wiki-mini
"$STRETTO" help train | grep -q wiki || exit 1
"$STRETTO" train --model bert-tiny --data "wiki:$shared/data/wiki-mini" --batch 16 --steps 60 --log-every 1 --out run --quiet 2>err
code=$?
if grep -q HDF5 err; then cat err; exit 77; fi
[ $code = 0 ] || { cat err; exit 1; }
sed -n 's/.*"kind": *"train".*"loss": *\([0-9.e+-]*\).*/\1/p' run/metrics.jsonl >losses
awk '{ quarter = int((NR - 1) / 15); sum[quarter] += $1; n[quarter]++ }
     END { for (q = 0; q < 4; q++) { mean = sum[q] / n[q]; print "quarter", q + 1, "mean loss", mean
                                     if (q && mean >= before) bad = 1; before = mean } exit bad || NR < 60 }' losses
