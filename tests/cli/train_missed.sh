# A forecast that a run did not keep to: its end says so, what differs and what to try; and says nothing of one that it kept.
. "$ROOT/tests/cli/lib.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
small="--model mlp --threads 1 --batch 32 --steps 30 --eval-every never --overwrite --out run"
# shellcheck disable=SC2086
train() { "$STRETTO" train $small "$@" >out 2>err || say "$*: exit $?: $(cat err)"; }
# What is printed follows from summary.json.
follows() {
    python3 - <<'END' || say "$*: $(tail -n 12 out)"
import json, re
summary, out = json.load(open("run/summary.json")), open("out").read()
step, forecast = summary["step_ms"]["p50"], summary["predicted_step_ms"]
end = out[out.index("\nreport  "):]
missed = forecast["low"] < forecast["high"] and not forecast["low"] <= step <= forecast["high"]
rows = [re.search(r"^%s  +\S" % name, end, re.M) is not None for name in ("forecast", "what differs", "try")]
assert rows == [missed] * 3, (rows, step, forecast)
if missed:
    assert (", above the forecast of " if step > forecast["high"] else ", below the forecast of ") in re.sub(r"\s+", " ", end), end
END
}
train
follows plain
train -n 2
follows two ranks
train --delay f=1ms,b=1ms
follows delays
! grep -q '^what differs' out || say "--delay has no interval: $(cat out)"
train --steps 3
! grep -q '^what differs' out || say "no step was timed: $(cat out)"

# Times of a profile that are a thousandth, or a thousand times, of what was measured cannot be kept.
small="$small --model resnet8"
train -n 2 --strategy gpipe --micro-batches 2 --save-profile measured.json
for factor in 0.001 1000; do
    python3 - $factor <<'END'
import json, sys
profile = json.load(open("measured.json"))
profile["check"] = "00000000"
for section in profile["sections"]:
    times = [row["ns"] for row in section["rows"]]
    times += [section["rates"][name] for name in ("operation_ns", "instruction_ns", "wake_ns", "sample_ns") if name in section["rates"]]
    for time in times:
        time["median"] *= float(sys.argv[1])
    # Operations that were not measured, since the order cuts elsewhere, go by these.
    for name in ("flops_per_ns", "bytes_per_ns"):
        if name in section["rates"]: section["rates"][name]["median"] /= float(sys.argv[1])
    # What a busy machine measures spreads over anything, and an interval as wide cannot be missed.
    for time in times + list(section["rates"].values()):
        time["iqr"] = 0.01 * time["median"]
    if "step_ratio" in section["rates"]:
        section["rates"]["step_ratio"].update(median=1, iqr=0.1)
json.dump(profile, open("other.json", "w"))
END
    check=$("$STRETTO" simulate --model mlp --threads 1 --profile other.json 2>&1 | sed -n 's/.*content has checksum \([0-9a-f]*\),.*/\1/p')
    sed -i "s/\"00000000\"/\"$check\"/" other.json
    train -n 2 --strategy auto --stages 2 --virtual 1 --micro-batches 2 --profile other.json
    follows profile times $factor
    grep -q '^what differs' out || say "times $factor: nothing is missed: $(tail -n 12 out)"
done
# The last one is seconds away from what any machine measures.
tr '\n' ' ' <out | tr -s ' ' >line
grep -q 'forward and backward took [0-9.]* [mu]*s on rank 0, by the times of other.json' line || say "the profile is not named: $(tail -n 8 out)"
grep -q ' try .*--save-profile FILE' line || say "nothing to try: $(tail -n 8 out)"
train -n 2 --strategy auto --stages 2 --virtual 1 --micro-batches 2 --profile other.json --quiet
[ ! -s out ] || say "--quiet prints: $(cat out)"
exit $failed
