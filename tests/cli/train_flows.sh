# trace.json as viewers want it, for pipelines, V-shapes, calls and slices: every track has a name, events of a track nest,
# and every message is an arrow that begins inside its SEND and ends, later, inside its RECV, on another rank but in a V.
set -u
command -v python3 >/dev/null || { echo "python3 reads the traces"; exit 77; }
cat >strict.py <<'END'
import collections, json, sys
path, arrows, within = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
events = json.load(open(path))["traceEvents"]
SLACK = 0.002 # microseconds: times are printed to a nanosecond
work, ends, processes, threads = collections.defaultdict(list), collections.defaultdict(dict), set(), set()
for e in events:
    if e["ph"] == "M":
        assert e["args"].get("name", True), e
        if e["name"] == "process_name": processes.add(e["pid"])
        if e["name"] == "thread_name": threads.add((e["pid"], e["tid"]))
    elif e["ph"] == "X":
        assert e["ts"] >= 0 and e["dur"] >= 0, e
        work[e["pid"], e["tid"]].append(e)
    else:
        assert e["ph"] in ("s", "f") and e["cat"] and e["ts"] >= 0, e
        assert e["ph"] not in ends[e["id"]], "%s twice" % e["id"]
        assert e["ph"] == "s" or e.get("bp") == "e", "%s: ends at the next event, not at this" % e
        ends[e["id"]][e["ph"]] = e
used = {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"}
assert used <= threads, "tracks without a name: %s" % sorted(used - threads)
assert {pid for pid, tid in used} <= processes, "processes without a name"
for track, list_ in work.items():
    open_ = []
    for e in sorted(list_, key=lambda e: (e["ts"], -e["dur"])):
        while open_ and open_[-1] <= e["ts"] + SLACK: open_.pop()
        end = e["ts"] + e["dur"]
        assert not open_ or end <= open_[-1] + SLACK, "%s on %s: passes the end of the event around it" % (e, track)
        open_.append(end)
assert len(ends) == arrows, "%d messages, not %d" % (len(ends), arrows)
for name, pair in ends.items():
    assert set(pair) == {"s", "f"}, "%s has no other end" % name
    begin, end = pair["s"], pair["f"]
    within -= begin["pid"] == end["pid"]
    assert begin["ts"] <= end["ts"], (begin, end)
    assert (begin["name"], begin["cat"]) == (end["name"], end["cat"]), (begin, end)
    for e, op in (begin, "SEND_"), (end, "RECV_"):
        around = [x for x in work[e["pid"], e["tid"]]
                  if x["ts"] - SLACK <= e["ts"] <= x["ts"] + x["dur"] + SLACK and x["name"].startswith(op)]
        assert around, "%s is inside no %s" % (e, op)
assert within == 0, "%d more arrows than messages between the stages of one rank" % -within
END
# run NAME ARROWS WITHIN OPTION...: of two steps; WITHIN of the arrows stay on a rank, which has both stages
run() {
    name=$1 arrows=$2 within=$3
    shift 3
    "$STRETTO" train --model mlp --device ref --threads 1 --batch 24 --steps 2 --quiet --out "$name" "$@" 2>err || { cat err; exit 1; }
    python3 strict.py "$name/trace.json" "$arrows" "$within" || { echo "$name"; exit 1; }
}
# cuts x micro-batches x directions x steps, for each replica
run pipeline 12 0 --strategy 1f1b -n 2 --micro-batches 3
run replicas 32 0 --strategy 1f1b --stages 2 --replicas 2 --micro-batches 4
run waits 48 0 --strategy gpipe --stages 4 --micro-batches 4 --delay f=1ms,i=1ms,w=1ms
run shape 48 16 --strategy zbv --stages 2 --micro-batches 4
run calls 16 0 --strategy rpc --stages 2 --micro-batches 4
run slices 0 0 --strategy zero3 -n 2 --micro-batches 2
run slices-in-pipeline 32 0 --strategy 1f1b --stages 2 --replicas 2 --zero-stage 2 --micro-batches 4
run again 16 0 --strategy 1f1b --stages 2 --micro-batches 4 --recompute always
# The check fails on what is wrong: an arrow without an end, one backwards, a track without a name.
wrong() { # TEXT, what is done to the events
    python3 - "$2" <<'END' || exit 1
import json, sys
trace = json.load(open("pipeline/trace.json"))
events = trace["traceEvents"]
flows = [e for e in events if e["ph"] == "f"]
exec(sys.argv[1])
json.dump(trace, open("wrong.json", "w"))
END
    ! python3 strict.py wrong.json 12 0 2>err && grep -q "$1" err || { echo "not seen: $1"; cat err; exit 1; }
}
wrong 'no other end' 'events.remove(flows[3])'
wrong 'inside no' 'flows[2]["ts"] += 1e9'
wrong 'without a name' 'events.remove(next(e for e in events if e["name"] == "thread_name"))'
