# In virtual time an evaluation, a checkpoint and a stop are instants: whatever --eval-every and --save-every are, and wherever a run is
# stopped or killed and resumed, it has the clocks, metrics, staleness and trace of one that did none of that.
. "$ROOT/tests/train/lib.sh"
common="--data synthetic:size=8,count=96,test_count=8 --batch 12 --steps 12 --threads 1 --quiet --log-every 1 --trace 1-12"
virtual="--clock virtual --hetero base=1ms,slow=0:2,transient=0.3:500us,link=0:1:300us"
cat >compare.py <<'END'
"""compare.py A B: rows are A's, and so is the trace from where B was resumed (all of it where it was not)."""
import json
import sys

def rows(run):
    return {row["step"]: {k: v for k, v in row.items() if k != "unix_s"} for row in map(json.loads, open(run + "/metrics.jsonl")) if row["kind"] == "train"}

def trace(run):
    events = json.load(open(run + "/trace.json"))["traceEvents"]
    return {json.dumps([e["pid"], e["tid"] > 0, e["name"], e["ts"], e["dur"], e["args"]], sort_keys=True): (e["pid"], e["ts"]) for e in events if e["ph"] == "X"}

a, b = sys.argv[1:]
assert rows(a) == rows(b), [(step, key) for step in rows(a) for key in rows(a)[step] if rows(a)[step][key] != rows(b).get(step, {}).get(key)]
assert len(rows(a)) == 12 and all(row["grad_norm"] for row in rows(a).values())
of, other = trace(a), trace(b)
first = {}
for rank, begin in other.values():
    first[rank] = min(begin, first.get(rank, begin))
# What was under way at the stop had begun before it, and was told then.
missing = [event for event, (rank, begin) in of.items() if begin > first[rank] and event not in other]
added = [event for event in other if event not in of]
assert not missing and not added and len(other) > 10, (len(of), len(other), missing[:3], added[:3])
assert json.load(open(a + "/summary.json"))["staleness"] == json.load(open(b + "/summary.json"))["staleness"]
END
clock=$virtual
# train NAME OPTION...
train() {
    name=$1
    shift
    rm -rf "$name"
    # shellcheck disable=SC2086
    "$STRETTO" train $common $clock --out "$name" "$@"
}
same() {
    python3 compare.py "$1" "$2" || { echo "$how: $1 and $2 differ"; exit 1; }
    [ "$(key "$1/summary.json" param_hash)" = "$(key "$2/summary.json" param_hash)" ] || { echo "$how: other parameters"; exit 1; }
    [ "$(key "$1/summary.json" buffer_hash)" = "$(key "$2/summary.json" buffer_hash)" ] || { echo "$how: other statistics"; exit 1; }
}
for how in "--model vit-micro --dropout 0.1 --strategy pipedream --stages 3" \
    "--model resnet8 --strategy pipedream --stages 2 --replicas 2 --vertical-sync" \
    "--model vit-micro --strategy pipedream-2bw --stages 3 --micro-batches 3 --recompute always" \
    "--model resnet8 --strategy 1f1b --stages 2 --replicas 2 --micro-batches 3" \
    "--model mlp --strategy ddp --replicas 4 --zero-stage 2"; do
    # shellcheck disable=SC2086
    set -- $how
    train whole "$@" --eval-every never --save-every never || exit 1
    train looked "$@" --eval-every 3 --save-every 2 || exit 1
    same whole looked
    # Evaluations see what they see on the wall clock: parameters and running statistics of the same number.
    clock=
    train wall "$@" --eval-every 3 --save-every never || exit 1
    clock=$virtual
    for name in looked wall; do sed -n 's/.*"kind":"eval".*"loss":\([^,]*\),.*/\1/p' $name/metrics.jsonl >$name.losses; done
    [ "$(wc -l <wall.losses)" = 4 ] && cmp -s looked.losses wall.losses || { echo "$how: other evaluations"; paste looked.losses wall.losses; exit 1; }
    for at in 5:B 12:REPORT; do
        STRETTO_FAULT="rank=1,step=${at%:*},at=${at#*:},do=kill" train cut "$@" --eval-every 5 --save-every 3 >out 2>&1 && { echo "not killed at $at"; exit 1; }
        "$STRETTO" train --resume --quiet --out cut >out 2>&1 || { echo "$how, killed at $at"; cat out; exit 1; }
        same whole cut
    done
    # Stopped again and again, wherever that is: also where pauses are so close that messages bring no request in time.
    [ "$how" = "${how%pipedream*}" ] && continue
    train cut "$@" --eval-every 4 --save-every 1 --time-limit 1ms >out 2>&1
    code=$? starts=1
    while [ $code != 0 ] && [ $starts -lt 40 ]; do
        "$STRETTO" train --resume --quiet --out cut --time-limit 1ms >out 2>&1
        code=$? starts=$((starts + 1))
    done
    [ $code = 0 ] && [ $starts -gt 3 ] || { echo "$how: $starts starts, exit code $code"; cat out; exit 1; }
    "$STRETTO" train --resume --quiet --out cut >out 2>&1
    python3 - <<'END' || { echo "$how, stopped $starts times"; exit 1; }
import json
rows = [{r["step"]: (r["virtual_s"], r["step_ms"], r["loss"], r["grad_norm"], r["rank_ms"]) for r in map(json.loads, open(run + "/metrics.jsonl")) if r["kind"] == "train"} for run in ("whole", "cut")]
assert rows[0] == rows[1], [(step, rows[0][step], rows[1].get(step)) for step in rows[0] if rows[0][step] != rows[1].get(step)][:2]
END
done
