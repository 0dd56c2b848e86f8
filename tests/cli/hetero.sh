# --hetero: laws change no bit, the run and its forecast keep them, and what is wrong is refused with its place.
. "$ROOT/tests/cli/lib.sh"
set -- --model mlp --data synthetic:count=64,size=8 --threads 1 --batch 8 --steps 4 --eval-every never --quiet
hash() { sed -n 's/.*"param_hash": "\(.*\)".*/\1/p' "$1/summary.json"; }
# value KEY FILE
value() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\).*/\1/p" "$2"; }
for how in "ddp -n 2" "1f1b --stages 2 --micro-batches 2" "zbv --stages 2 --micro-batches 2 --recompute always" "zero3 -n 2 --micro-batches 2"; do
    name=$(echo "$how" | tr -c 'a-z0-9\n' _)
    "$STRETTO" train "$@" --strategy $how --spawn threads --out "$name" 2>err || say "$how: $(cat err)"
    printf '0,0,0.5\n0.01,1,0.25\n' >speeds.csv
    "$STRETTO" train "$@" --strategy $how --spawn threads --hetero base=5ms,slow=1:2,transient=0.5:2ms,link=0:1:1ms:10MB/s,trace=speeds.csv:2 --out "$name-law" 2>err ||
        say "$how with laws: $(cat err)"
    [ "$(hash "$name")" = "$(hash "$name-law")" ] || say "$how: laws change bits"
    [ "$(value law_passes "$name-law/summary.json")" -gt 0 ] || say "$how: no passes are counted"
done
# No pass is shorter than its law: a step of rank 1 takes three times its forward and backward.
"$STRETTO" train "$@" --strategy ddp -n 2 --steps 8 --hetero base=10ms,slow=1:3 --out slow 2>err || say "slow: $(cat err)"
if command -v python3 >/dev/null; then
    "$STRETTO" simulate --model mlp --data synthetic:count=64,size=8 --threads 1 --batch 8 --strategy ddp -n 2 --hetero base=10ms,slow=1:3 --json >told ||
        say "simulate"
    python3 - <<'END' || say "a run is not what its laws say"
import json, sys
took, told = json.load(open("slow/summary.json")), json.load(open("told"))
passes = told["rank"][1]["busy"] * 1e-6
good = passes > 3 * 20 and abs(told["rank"][0]["busy"] * 3e-6 - passes) < 1e-6
# Rank 1 waits that long in every step; where steps begin on rank 0 wavers a little. Without the law it would be a third.
good &= took["step_ms"]["p50"] >= 0.9 * passes and took["law_passes"] == 2 * 2 * 8
good &= took["predicted_step_ms"]["p50"] == took["predicted_step_ms"]["low"]
good &= 2.5 < told["unequal"]["step"] / told["unequal"]["equal_step"] <= 3 and told["unequal"]["step"] == told["step"]
if not good: print(took["step_ms"], took["predicted_step_ms"], took["law_passes"], told)
sys.exit(not good)
END
fi
# A pass of 100 ns cannot be kept: that is said.
"$STRETTO" train "$@" --hetero base=100ns --out late 2>err || say "late: $(cat err)"
grep -q 'of the passes computed longer than --hetero base=100ns says' err || say "no word of late passes: $(cat err)"
# In words, and for a run that is resumed with other laws.
"$STRETTO" explain --model mlp --data synthetic --strategy ddp -n 4 --hetero base=20ms,slow=3:3 >screen 2>err || say "explain: $(cat err)"
grep -q '^unequal .* times the .* with equal' screen || say "explain does not say what a slow rank costs"
tr -s ' \n' '  ' <screen | grep -q 'laws base=20ms,slow=3:3: passes run at [0-9.]* GFLOP/s, whatever the costs above say' || say "explain does not say what base fixes"
"$STRETTO" simulate --model mlp --data synthetic --strategy ddp -n 4 --hetero slow=3:3 >screen 2>err || say "simulate: $(cat err)"
grep -q '^laws  *slow=3:3, applied to the costs above' screen || say "simulate does not say what slow multiplies"
# What a pipeline that is never flushed would take is what is forecast of it.
pipes="--model vit-micro --data synthetic --threads 1 --stages 4 --micro-batches 8 --hetero base=400ms,slow=1:3"
"$STRETTO" simulate $pipes --strategy 1f1b >screen 2>err || say "simulate: $(cat err)"
other=$(tr -s ' \n' '  ' <screen | sed -n 's/.*one update old, would take \([0-9.]* [a-z]*\).*/\1/p')
told=$("$STRETTO" simulate $pipes --strategy pipedream-2bw 2>/dev/null | sed -n 's/^step  *//p')
[ -n "$told" ] && [ "$other" = "$told" ] || say "2bw would take $other, and not $told"
# Of replicas it is diloco where a link is slow, as its own forecast says; nothing where all passes are slow, or of what the other strategy refuses.
replicas="--model mlp --data synthetic --threads 1 -n 4 --hetero base=20ms,link=0:1:50ms"
"$STRETTO" simulate $replicas --strategy ddp >screen 2>err || say "simulate: $(cat err)"
other=$(tr -s ' \n' '  ' <screen | sed -n 's/.*; diloco, which .* would take \([0-9.]* [a-z]*\).*/\1/p')
told=$("$STRETTO" simulate $replicas --strategy diloco 2>/dev/null | tr -s ' \n' '  ' | sed -n 's/.*so a step takes \([0-9.]* [a-z]*\) in the mean.*/\1/p')
[ -n "$told" ] && [ "$other" = "$told" ] || say "diloco would take $other, and not $told"
for none in "--strategy ddp -n 4 --hetero base=20ms,slow=1:3" "--strategy 1f1b --stages 2 --micro-batches 4 --freeze 1 --hetero base=20ms,slow=1:3" \
    "--strategy diloco --schedule 1f1b --stages 2 --replicas 2 --micro-batches 4 --hetero base=20ms,slow=1:3"; do
    "$STRETTO" simulate --model vit-micro --data synthetic --threads 1 $none >screen 2>err || say "simulate $none: $(cat err)"
    grep -q '^unequal' screen && ! grep -q 'would take' screen || say "$none: $(grep -A3 '^unequal' screen)"
done
# Nor one that does not go with what is frozen later.
"$STRETTO" explain --model mlp --data synthetic --batch 60 -n 3 --strategy ddp --freeze norm --steps 6 --hetero slow=1:3 >screen 2>err || say "explain: $(cat err)"
grep -q '^unequal' screen && ! grep -q 'would take' screen || say "with --freeze norm: $(grep -A3 '^unequal' screen)"
# Where laws change from step to step it is said which one is told.
"$STRETTO" simulate --model mlp --data synthetic --strategy ddp -n 2 --hetero base=20ms,transient=0.5:10ms >screen 2>err || say "simulate: $(cat err)"
grep -q '^step .*, step 3 of a run: laws change' screen && tr -s ' \n' '  ' <screen | grep -q 'a step takes [0-9.]* ms on average of 200 steps' || say "which step is it? $(cat screen)"
# What ranks do in a step is of the steps whose mean is told, also where the last one was long.
"$STRETTO" simulate --model vit-micro --data synthetic --threads 1 --strategy pipedream --stages 3 --hetero base=20ms,transient=0.5:10ms --json >told 2>err || say "simulate: $(cat err)"
python3 - <<'END' || say "a bubble below 0, or a span bubble above it: $(cat told)"
import json, sys
told = json.load(open("told"))
sys.exit(not (0 < told["span_bubble"] <= told["bubble"] and all(rank["busy"] < told["step"] for rank in told["rank"])))
END
"$STRETTO" train "$@" --strategy ddp -n 2 --resume --steps 9 --hetero base=10ms --out slow 2>err || say "resume: $(cat err)"
grep -q hetero err || say "other laws at --resume are not told: $(cat err)"
grep -q "trace=$(pwd -P)/speeds.csv:2" ddp__n_2-law/config.yml || grep -q "trace=.*/speeds.csv:2" ddp__n_2-law/config.yml || say "config.yml: $(grep hetero ddp__n_2-law/config.yml)"
# refused EXIT WORDS OPTIONS...
refused() {
    want=$1 words=$2
    shift 2
    "$STRETTO" simulate --model mlp --data synthetic --strategy ddp -n 2 "$@" >/dev/null 2>err
    [ $? = "$want" ] || say "$*: not exit $want"
    grep -q -- "$words" err || say "$*: $(cat err)"
    [ "$(wc -l <err)" -le 3 ] || say "$*: more than three lines"
}
refused 2 "'fast=2' is not a law" --hetero fast=2
refused 2 "slow: rank 2 is not one of this run" --hetero slow=2:3
refused 2 "--delay and --hetero exclude one another" --hetero slow=1:3 --delay f=1ms
refused 2 "--costs and --hetero exclude one another" --hetero slow=1:3 --costs f=1
refused 3 "cannot open" --hetero trace=nowhere.csv
printf '0,0,1\n5,7,0.5\n' >far.csv
refused 3 "far.csv: line 2: rank 7 is not one of this run" --hetero trace=far.csv
printf '0,0,fast\n' >bad.csv
refused 3 "bad.csv: line 1: speed is 'fast'" --hetero trace=bad.csv
# The shipped trace is one.
"$STRETTO" simulate --model mlp --data synthetic --strategy ddp -n 16 --batch 1024 --hetero "base=20ms,trace=$ROOT/examples/cloud.csv:0.001" --json >told 2>err ||
    say "cloud.csv: $(cat err)"
head -1 "$ROOT/examples/cloud.csv" | grep -q imitates || say "cloud.csv does not say that it imitates"
exit $failed
