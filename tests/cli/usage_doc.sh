# The option table of docs/usage.md is the one the program prints; docs/metrics.md explains the keys that a run writes, and no
# others.
. "$ROOT/tests/cli/lib.sh"
"$STRETTO" help --markdown >printed || exit 1
sed -n '/^<!-- options -->$/,/^<!-- end -->$/p' "$ROOT/docs/usage.md" | sed '1d;$d' >written
diff written printed || say "docs/usage.md is out of date: run scripts/usage-table"

# Keys of the files of a run of several ranks, members of a group as group.member: a line each.
"$STRETTO" train --model mlp --device ref --threads 1 -n 2 --steps 2 --log-every 1 --quiet --out run || exit 1
sed -n 's/^  "\([a-z0-9_]*\)": *\(.*\)/\1 \2/p' run/summary.json | while read -r key rest; do
    case $rest in
    '{'*) echo "$rest" | grep -o '"[a-z0-9_]*":' | tr -d '":' | sed "s/^/$key./" ;;
    *) echo "$key" ;;
    esac
done | sort >summary.keys
grep -o '"[a-z0-9_]*":' run/metrics.jsonl | tr -d '":' | sort -u >metrics.keys
[ "$(wc -l <summary.keys)" -ge 50 ] && [ "$(wc -l <metrics.keys)" -ge 15 ] || say "these are not all keys: $(cat summary.keys metrics.keys)"
for part in summary.json metrics.jsonl; do
    sed -n "/^## $part\$/,/^## /p" "$ROOT/docs/metrics.md" | sed -n 's/^| `\([a-z0-9_.]*\)` |.*/\1/p' | sort >"${part%.*}.explained"
    diff "${part%.*}.explained" "${part%.*}.keys" || say "docs/metrics.md: the table of $part (<) is not what a run writes (>)"
done
# The tags of the events are those that docs/metrics.md names.
grep -aoE '(train|eval)/[a-z0-9_]+' run/events.out.tfevents.* | sort -u >tags
grep -oE '`(train|eval)/[a-z0-9_]+`' "$ROOT/docs/metrics.md" | tr -d '`' | sort -u | diff - tags || say "docs/metrics.md: the tags of TensorBoard (<) are not those of a run (>)"
exit $failed
