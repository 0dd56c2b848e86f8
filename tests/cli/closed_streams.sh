# Standard streams that are closed: no file of a run takes their numbers, so nothing is written into it that does not
# belong there, and what a run computes does not change.
set -u
mlp="--model mlp --threads 1 --batch 24 --steps 20 --log-every 1"
hash_of() { sed -n 's/^ *"param_hash": "\(.*\)",*$/\1/p' "$1/summary.json"; }
# shellcheck disable=SC2086
"$STRETTO" train $mlp --deal 2x1 --out whole >/dev/null || { echo "the run with open streams failed"; exit 1; }
# whole_run NAME CODE: as that run, and only rows in its metrics
whole_run() {
    [ "$2" = 0 ] || { echo "$1: exit code $2"; cat "$1.err" "$1"/rank-*.log 2>/dev/null; exit 1; }
    [ "$(hash_of "$1")" = "$(hash_of whole)" ] || { echo "$1: another result"; exit 1; }
    rows=$(grep -c '^{"kind":"[a-z]*",.*}$' "$1/metrics.jsonl")
    lines=$(wc -l <"$1/metrics.jsonl")
    [ "$rows" = "$lines" ] && [ "$rows" -ge 20 ] || { echo "$1: $lines lines, $rows rows"; cat "$1/metrics.jsonl"; exit 1; }
}
for how in "--deal 2x1" "-n 2" "-n 2 --spawn threads"; do
    name=run$(echo "$how" | tr -dc 'a-z0-9')
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp $how --out "$name-in-out" <&- >&- 2>"$name-in-out.err"
    whole_run "$name-in-out" $?
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp $how --out "$name-all" <&- >&- 2>&-
    whole_run "$name-all" $?
done
# ranks that somebody else starts
for rank in 1 0; do
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp --rank $rank --world-size 2 --init "file://$PWD/rendezvous" --out by-hand <&- >&- 2>&- &
done
wait $!
code=$?
wait
whole_run by-hand $code
# where the answer is what is written, its loss is an error
"$STRETTO" explain --model mlp >&- 2>err
code=$?
[ $code = 3 ] && grep -q 'standard output' err || { echo "explain: exit code $code"; cat err; exit 1; }
# two processes, each with the same file opened for its messages: neither overwrites the other's
exec 3>both 4>both
"$STRETTO" explain --model first-of-two 2>&3
"$STRETTO" explain --model second-of-two 2>&4
for word in first-of-two second-of-two; do
    grep -q "$word" both || { echo "no message of $word: $(cat both)"; exit 1; }
done
