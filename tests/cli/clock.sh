# --clock virtual: the bits of the wall clock, times that repeat and are the simulator's, a resume that goes on to the nanosecond,
# and what is refused.
. "$ROOT/tests/cli/lib.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
export MALLOC_PERTURB_=1 # memory that is read after it was freed holds something else
set -- --model resnet8 --data synthetic:count=52,size=8 --threads 1 --batch 8 --epochs 2 --eval-every epoch --log-every 1 --trace 1-99 --quiet
cat >rows.py <<'END'
import json, sys
rows = lambda run: [{k: v for k, v in json.loads(line).items() if k not in ("unix_s", "eval_ms")} for line in open(run + "/metrics.jsonl")]
def events(run, behind):
    all = [e for e in json.load(open(run + "/trace.json"))["traceEvents"] if e["ph"] == "X" and e["args"].get("step", 0) > behind]
    first = min(e["ts"] for e in all)
    return sorted((round(e["ts"] - first, 3), e["dur"], e["name"], e["pid"], e["tid"], e["args"]["step"]) for e in all)
summary = lambda run: json.load(open(run + "/summary.json"))
END
laws="base=5ms,slow=0:2,transient=0.5:2ms"
for how in "ddp -n 2 --clip 0" "1f1b --stages 2 --micro-batches 2" "zero3 -n 2 --micro-batches 2"; do
    rm -rf wall virtual again parted
    "$STRETTO" train "$@" --strategy $how --spawn threads --out wall 2>err || say "$how: $(cat err)"
    for out in virtual again; do
        "$STRETTO" train "$@" --strategy $how --clock virtual --hetero $laws --save-every 6 --keep 9 --out $out 2>err || say "$how, $out: $(cat err)"
    done
    # As if it had been stopped behind its first epoch, whose evaluation was the best so far.
    cp -r again parted
    rm -rf parted/checkpoints/step-*12 parted/checkpoints/step-*14 parted/checkpoints/best
    "$STRETTO" train --resume --quiet --out parted 2>err || say "$how, resumed: $(cat err)"
    python3 - <<'END' || say "$how: virtual time is not what it says"
exec(open("rows.py").read())
one, two, parted, wall = summary("virtual"), summary("again"), summary("parted"), summary("wall")
good = one["param_hash"] == two["param_hash"] == parted["param_hash"] == wall["param_hash"]
good &= rows("virtual") == rows("again") == rows("parted") and len(rows("virtual")) == 16
good &= events("virtual", 7) == events("again", 7) == events("parted", 7)
good &= all(row["virtual_s"] > 0 for row in rows("virtual")) and all(row["virtual_s"] is None for row in rows("wall"))
good &= one["mfu"] is None and one["predicted_step_ms"]["low"] == one["predicted_step_ms"]["high"]
if not good: print(one["param_hash"], wall["param_hash"], parted["param_hash"], rows("virtual")[-3:], rows("parted")[-3:])
sys.exit(not good)
END
done
# What times follow from is a fixed fact, by content; copies are kept.
cat >two.yml <<'END'
classes:
  - {name: slow, ranks: 2, gflops_per_s: 1, memory_gib: 8, memory_gb_per_s: 1}
links:
  in_host: {latency_us: 2, bandwidth_gb_per_s: 4}
END
"$STRETTO" train "$@" --strategy ddp -n 2 --clock virtual --cluster two.yml --steps 4 --out clustered 2>err || say "cluster: $(cat err)"
"$STRETTO" simulate --model resnet8 --data synthetic:count=52,size=8 --batch 8 --strategy ddp -n 2 --clock virtual --cluster two.yml --json >told || say "simulate"
python3 - <<'END' || say "a step on a cluster is not the simulator's"
exec(open("rows.py").read())
took, told = rows("clustered")[2]["step_ms"] * 1e6, json.load(open("told"))["step"]
sys.exit(abs(took - told) > 1)
END
cmp two.yml clustered/clock-1-two.yml || say "no copy of the cluster"
mkdir elsewhere && mv two.yml elsewhere/same.yml
"$STRETTO" train --resume --steps 5 --quiet --out clustered 2>err && say "a cluster that is gone is found"
grep -q 'the run has a copy of it, clustered/clock-1-two.yml' err || say "the copy is not named: $(cat err)"
cp -R clustered kept && "$STRETTO" train --resume --steps 5 --cluster kept/clock-1-two.yml --quiet --out kept 2>err || say "the copy is not taken: $(cat err)"
[ "$(ls kept | grep -c clock-)" = 1 ] || say "a copy of the copy: $(ls kept)"
"$STRETTO" train --resume --steps 5 --cluster elsewhere/same.yml --quiet --out clustered 2>err || say "the same cluster by another name: $(cat err)"
sed 's/gflops_per_s: 1,/gflops_per_s: 2,/' elsewhere/same.yml >other.yml
"$STRETTO" train --resume --steps 6 --cluster other.yml --quiet --out clustered 2>err && say "another cluster is taken at --resume"
grep -q clock-costs err || say "no word of the costs: $(cat err)"
# A device that is too small is said, and the machine's memory too.
sed 's/memory_gib: 8/memory_gib: 0.001/' elsewhere/same.yml >small.yml
"$STRETTO" train "$@" --strategy ddp -n 2 --clock virtual --cluster small.yml --out small 2>err
[ $? = 5 ] || say "a small device is not exit 5: $(cat err)"
"$STRETTO" train "$@" --strategy ddp -n 2 --cluster small.yml --steps 1 --out wide 2>err || say "on the wall clock this machine's memory counts: $(cat err)"
# A failure ends all ranks.
"$STRETTO" train "$@" --strategy ddp -n 4 --clock virtual --lr 1e35 --clip 0 --out nan >/dev/null 2>err
[ $? = 6 ] || say "not a number is not exit 6: $(cat err)"
refused() {
    words=$1
    shift
    "$STRETTO" train --model mlp --strategy ddp --clock virtual --quiet --out refused "$@" >/dev/null 2>err
    [ $? = 2 ] || say "$*: not exit 2"
    grep -q -- "$words" err || say "$*: $(cat err)"
    [ "$(wc -l <err)" -le 3 ] || say "$*: more than three lines"
}
refused "--clock virtual runs ranks as threads, --spawn is processes" -n 2 --spawn processes
refused "--delay and --clock virtual exclude one another" -n 2 --delay f=1ms
refused "--nodes asks for other processes, but --clock virtual runs in one" -n 2 --nodes 2 --node-rank 0
RANK=0 WORLD_SIZE=2 refused "--clock virtual run them as threads of one"
exit $failed
