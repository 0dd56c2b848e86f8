# report.html of a pipeline has the timeline of its last whole step: every instruction that was measured is predicted, by
# rank and id; and the difference in words. A short last step has a list of its own and is not the one that is shown.
set -u
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }
"$STRETTO" train --model mlp --device ref --threads 1 --strategy 1f1b -n 2 --micro-batches 3 --batch 24 --data synthetic:size=8,count=88,test_count=8 \
    --steps 8 --out run >out || exit 1
"$STRETTO" explain --model mlp --device ref --threads 1 --strategy 1f1b -n 2 --micro-batches 3 --batch 24 \
    --data synthetic:size=8,count=88,test_count=8 --steps 8 --json >plan || exit 1
"$STRETTO" explain --model mlp --device ref --costs f=1,b=2 --json | grep -q '"predicted_step_ms": null' ||
    { echo "units are told as ms"; exit 1; }
# A pipeline that is never flushed is shown full, forecast and measurement from the end of one step to the end of another. In
# virtual time both are the same. With ranks in one process one peak is predicted.
"$STRETTO" train --model mlp --device ref --threads 1 --strategy pipedream --stages 3 --batch 6 --data synthetic:size=8,count=96,test_count=8 \
    --steps 12 --eval-every never --save-every never --clock virtual --hetero base=3ms --quiet --out ahead || exit 1
"$STRETTO" train --model mlp --device ref --threads 1 --strategy pipedream --stages 3 --batch 6 --data synthetic:size=8,count=96,test_count=8 \
    --steps 4 --eval-every never --save-every never --spawn threads --quiet --out short 2>/dev/null || exit 1
python3 - <<'END' || exit 1
import json, re
page = open("ahead/report.html").read()
assert "Timeline of steps 8 to 10:" in page, re.findall("Timeline of [^<]*", page)
assert re.search("<li>The 3 steps that are drawn took [0-9.]+ ms, as predicted.", page), re.findall("<li>[^<]*", page)
data = json.loads(re.search('class="tl-data">(.*?)</script>', page, re.S).group(1))
kinds = [kind[0] for kind in data["kinds"]]
def passes(lane):
    at, begin, out = 0, 0, []
    for i in range(len(lane["b"]) // 3):
        begin += lane["b"][3 * i]
        at = lane["id"][i] + at
        kind, micro = lane["b"][3 * i + 2] // (data["micros"] + 1) % len(kinds), lane["b"][3 * i + 2] % (data["micros"] + 1) - 1
        if kinds[kind] in "FB": out.append((kinds[kind], micro, at, round(begin / 1e4)))
    return sorted(out)
for rank in range(3):
    predicted, measured = [passes(version["lanes"][rank]) for version in data["versions"]]
    assert predicted == measured and len(predicted) >= 6, (rank, predicted, measured)
assert data["micros"] <= 6, data["micros"]
peak = json.load(open("ahead/summary.json"))["predicted_peak_bytes"][0] / 2**20
assert len(re.findall("%.1f MiB" % peak, page)) > 3 and "Peak memory of a rank</dt>" in page
shown = re.search("Peak memory of a rank</dt>.*?second\">([0-9.]+) MiB", page).group(1)
assert shown == "%.1f" % peak, (shown, peak)
assert "the trace has no 4 steps in a row with the pipeline full" in open("short/report.html").read()
END
python3 - run/report.html <<'END' || exit 1
import json, re, sys
page = open(sys.argv[1]).read()
assert "Timeline of step 7:" in page, re.findall("Timeline of step [0-9]*", page)
data = json.loads(re.search('class="tl-data">(.*?)</script>', page, re.S).group(1))
assert len(data["labels"]) == 2, data["labels"]
predicted, measured = data["versions"]
def ids(lane):
    count, at, out = len(lane["b"]) // 3, 0, []
    for i in range(count):
        at = lane["id"][i] + at if "id" in lane else i
        out.append(at)
    return out
for rank in range(2):
    found = [i for i in ids(measured["lanes"][rank]) if i >= 0]
    assert len(found) == len(set(found)) > 10, found
    missing = set(ids(predicted["lanes"][rank])) - set(found)
    assert not missing, "rank %d: predicted, not measured: %s" % (rank, missing)
assert len(measured["arrows"]) == 4 * 3 * 2, measured["arrows"]
assert "From its first instruction to its last the step took" in page and "median, from step to step" in page and "Nothing was learned" not in page
assert "Critical path of the prediction" in page
summary = json.load(open("run/summary.json"))
# The bubble is in it, unless rank 0 was so late each time that all had come.
assert ("idle: waiting for other ranks" in page) == (summary["time_ms"]["idle"] > 0), summary["time_ms"]
forecast, peaks, out = summary["predicted_step_ms"], summary["peak_bytes"], open("out").read()
assert forecast["low"] < forecast["p50"] < forecast["high"], forecast
# One forecast, whoever tells it.
assert abs(json.load(open("plan"))["predicted_step_ms"] / forecast["p50"] - 1) < 1e-6, forecast
assert re.search(r"^time +forecast of a step: [0-9]", out, re.M), out
assert re.search(r"^peak memory +[0-9.]+ .iB on rank %d " % peaks.index(max(peaks)), out, re.M), (peaks, out)
END
