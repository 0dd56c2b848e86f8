# samples_per_s is samples over the time of steps: neither the evaluation nor the checkpoint before a row is in it.
# With a row for each step it is the batch over step_ms, to the digits printed.
set -u
value() { echo "$1" | sed -n 's/.*"'"$2"'":\([^,}]*\).*/\1/p'; }
"$STRETTO" train --model mlp --device ref --threads 1 --batch 50 --steps 12 --log-every 1 --eval-every 2 --save-every 3 \
    --quiet --out run || exit 1
grep '"kind":"train"' run/metrics.jsonl | while read -r row; do
    echo "$(value "$row" step) $(value "$row" samples_per_s) $(value "$row" step_ms)"
done >rows
[ "$(wc -l <rows)" = 12 ] || { echo "not 12 rows:"; cat rows; exit 1; }
awk '{
    step = 50 / ($3 * 1e-3)
    if ($2 > step * 1.000001 || $2 < step * 0.999999) { print "step " $1 ": " $2 " samples/s, of the step itself " step; bad = 1 }
} END { exit bad }' rows
