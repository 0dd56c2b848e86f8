# --delay: the passes of a step wait instead of computing, and all else of a run is there; the summary's bubbles are those of
# the ranks' passes.
. "$ROOT/tests/cli/lib.sh"
set -- --model mlp --device ref --threads 1 --strategy 1f1b --micro-batches 3 --batch 6 --steps 8 --eval-every never --quiet
"$STRETTO" train "$@" -n 2 --delay f=1ms,i=1ms,w=2ms --out slow 2>err || say "a run: $(cat err)"
[ -f slow/model.safetensors.index.json ] || [ -f slow/model.safetensors ] || say "no model"
grep -q '"name":"F' slow/trace.json || say "the trace has no F"
# Nothing was learned, but was finite; no step was shorter than its waits.
grep -q 'Nothing was learned: with --delay' slow/report.html || say "the report says nothing of --delay"
grep -q '"loss_last": 0,' slow/summary.json || say "the loss: $(grep loss_last slow/summary.json)"
if command -v python3 >/dev/null; then
    python3 - <<'END' || say "the summary is wrong"
import json, sys
d = json.load(open("slow/summary.json"))
floor = (3 + 1) * 4
good = d["step_ms"]["p50"] >= floor and d["time_ms"]["forward"] >= 3 and d["time_ms"]["backward"] >= 9
good &= d["predicted_step_ms"] == {"p50": floor, "low": floor, "high": floor}
good &= 0 < d["span_bubble"] <= d["bubble"] < 1
if not good: print(d["predicted_step_ms"], d["step_ms"], d["time_ms"], d["bubble"], d["span_bubble"])
sys.exit(not good)
END
    # A wait for a message that was not sent yet is no communication: rank 0 waits for its first gradient a forward and a
    # backward of rank 1 long, and no message takes long. On a busy machine ranks also wait for a core: beside longer passes
    # that is less.
    cat >waits.py <<'END'
import json, sys
took, rank = json.load(open("waits/summary.json"))["time_ms"], json.load(open("told"))["rank"][0]
good = rank["exposed"] == 0 and took["idle"] > rank["waits"] * 1e-6 / 2 and took["comm_exposed"] < took["idle"] / 4
if not good: print(took, rank)
sys.exit(not good)
END
    for ms in 20 100 500 none; do
        [ $ms != none ] || { say "the waits of a pipeline are not idle time: $(cat waits.log)" && break; }
        rm -rf waits
        "$STRETTO" train "$@" -n 2 --steps 6 --delay f=${ms}ms,b=$((2 * ms))ms --out waits 2>err || say "waits: $(cat err)"
        "$STRETTO" simulate --model mlp --device ref --strategy 1f1b --micro-batches 3 --batch 6 -n 2 --delay f=${ms}ms,b=$((2 * ms))ms --json >told ||
            say "simulate"
        python3 waits.py >>waits.log && break
    done
fi
# Segments of backward, light forwards, replicas that share statistics, a short step without samples on one of them.
"$STRETTO" train --model resnet8 --data synthetic:count=20,size=8 --device ref --threads 1 -n 2 --strategy ddp --sync-bn --batch 8 --micro-batches 2 \
    --epochs 1 --eval-every never --quiet --delay f=1ms,b=1ms --out replicas 2>err || say "replicas: $(cat err)"
"$STRETTO" train "$@" -n 2 --recompute always --delay f=1ms --out again 2>err || say "recompute: $(cat err)"
# A checkpoint of waits is no beginning for a training.
"$STRETTO" train "$@" -n 2 --save-every 8 --delay f=1ms,i=1ms,w=2ms --out kept 2>err || say "saves: $(cat err)"
"$STRETTO" train "$@" -n 2 --steps 9 --resume --delay f=2ms --out kept 2>err && say "other waits at --resume are taken"
grep -q 'delay' err || say "no word of delay: $(cat err)"
# refused TEXT VALUE
refused() {
    "$STRETTO" train "$@" --out refused >/dev/null 2>err
    [ $? = 2 ] || say "$*: not exit 2"
}
refused --model mlp --delay f=x
grep -q -- "--delay: f: 'x' is not allowed" err || say "f=x: $(cat err)"
refused --model mlp --delay c=1ms
exit $failed
