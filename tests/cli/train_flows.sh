# trace.json has an arrow for every message of a pipeline: its begin at one rank, its end at another, both inside the
# events that they belong to, as viewers want it.
set -u
"$STRETTO" train --model mlp --device ref --threads 1 --strategy 1f1b -n 2 --micro-batches 3 --batch 12 --steps 2 --quiet --out run || exit 1
python3 - run/trace.json <<'END' || exit 1
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
work = collections.defaultdict(list)
for e in events:
    if e["ph"] == "X": work[e["pid"], e["tid"]].append(e)
ends = collections.defaultdict(dict)
for e in events:
    if e["ph"] not in "sf": continue
    assert e["ph"] not in ends[e["id"]], "%s twice" % e["id"]
    name = "SEND_" if e["ph"] == "s" else "RECV_"
    around = [x for x in work[e["pid"], e["tid"]]
              if x["ts"] <= e["ts"] <= x["ts"] + x["dur"] and x["name"].startswith(name)]
    assert around, "%s is inside nothing" % e
    ends[e["id"]][e["ph"]] = e["pid"]
assert len(ends) == 2 * 3 * 2, "%d messages" % len(ends) # steps, micro-batches, directions
for name, pair in ends.items(): assert set(pair.values()) == {0, 1}, "%s: %s" % (name, pair)
END
