# A run of three ranks goes on with two, then one: the change is said, the loss keeps falling; with one rank that plays
# two (--deal) the bits are those of two.
. "$ROOT/tests/ranks/lib.sh"
long="--model mlp --threads 1 --batch 24 --epochs 3 --save-every 20 --eval-every never --log-every 1 --lr-policy const"
stop_at() { # STEP OPTION...: a run that is killed behind the checkpoint of that step
    step=$1
    shift
    STRETTO_FAULT=rank=0,at=COUNT,step=$((step + 2)),do=kill code 4 train $long "$@"
}
stop_at 40 -n 3 --out run
cp -r run alone
stop_at 80 -n 2 --out run --resume
says err 'deal'
says err '3x1'
code 0 train $long -n 1 --out run --resume
says err '2x1'
loss() { sed -n "s/.*\"step\": *$1,.*\"loss\": *\([0-9.e+-]*\).*/\1/p" run/metrics.jsonl | head -n 1; }
[ "$(wc -l <run/metrics.jsonl)" = 189 ] || { echo "$(wc -l <run/metrics.jsonl) lines of metrics"; exit 1; }
echo "loss at steps 1, 63, 126, 188: $(loss 1) $(loss 63) $(loss 126) $(loss 188)"
awk -v a="$(loss 1)" -v b="$(loss 188)" 'BEGIN { exit !(b < 0.7 * a && b > 0) }' || { echo "the loss does not fall"; exit 1; }
# the same way with one rank in two parts, where two ranks went on
cp -r alone two
code 0 train $long -n 2 --out two --resume
code 0 train $long -n 1 --deal 2x1 --out alone --resume
ends_as alone "$(hash two)"
# one rank, then two, then one: a strategy that nobody named follows the number of ranks; one that was named stays
short="--model mlp --threads 1 --batch 24 --eval-every never"
code 0 train $short --steps 2 --out one
code 0 train --out one --resume -n 2 --steps 4
grep -q '^# strategy: ddp' one/config.yml || { grep strategy: one/config.yml; exit 1; }
code 0 train --out one --resume -n 1 --steps 6
code 0 train $short --strategy single --steps 2 --out named
code 2 train --out named --resume -n 2 --steps 4
says err '--strategy single runs on one'
