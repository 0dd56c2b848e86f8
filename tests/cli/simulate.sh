# simulate: published figures from whole programs, files that say what things cost, drawings, and what is refused.
. "$ROOT/tests/cli/lib.sh"
sim() { "$STRETTO" simulate --device ref --threads 1 --data synthetic "$@" 2>err; }
# figures WANT OPTIONS: step, bubble and span bubble in the JSON, rounded as they are printed.
figures() {
    want=$1
    shift
    sim --model vit-tiny --batch 64 --json --costs f=1,i=1,w=1 "$@" >out || say "$*: exit $?: $(cat err)"
    got=$(python3 -c 'import json; d = json.load(open("out")); print("%g %.1f %.1f" % (d["step"], 100 * d["bubble"], abs(100 * d["span_bubble"])))')
    [ "$got" = "$want" ] || say "$*: $got, not $want"
}
if command -v python3 >/dev/null; then
    figures '117 17.9 17.9' --strategy 1f1b --stages 8 --micro-batches 32
    figures '117 17.9 17.9' --strategy gpipe --stages 8 --micro-batches 32
    figures '103 6.8 0.0' --strategy zb-h2 --stages 8 --micro-batches 32
    figures '25 4.0 0.0' --strategy zbv --stages 2 --micro-batches 4
    figures '117 17.9 17.9' --strategy 1f1b --stages 8 --replicas 2 --micro-batches 32
    python3 -c 'import json; d = json.load(open("out")); assert d["instructions"] > 1000 and d["seconds"] > 0' || say "what the simulator took: $(cat out)"
fi

# One screen, with what it rests on.
sim --model resnet8 --strategy 1f1b --stages 2 --replicas 3 --micro-batches 4 --batch 48 >out || say "plain: $(cat err)"
for word in '6 = 2 stages x 3 replicas' 'rules of the operations' 'samples a second' 'what the step waits for' 'span' exposed memory; do
    grep -q "$word" out || say "no '$word' in: $(cat out)"
done
[ "$(wc -l <out)" -lt 25 ] || say "more than a screen"

# What the update waits for with clipping, in words and as a number; without it there is nothing to say.
sim --model resnet8 --strategy 1f1b --stages 2 --micro-batches 4 --batch 48 --clip 1 >out || say "clip: $(cat err)"
grep -q "the update waits for the norm of all ranks' gradients, which takes [0-9.]* [mu]s of a step" out || say "no word of clipping: $(cat out)"
sim --model resnet8 --strategy 1f1b --stages 2 --micro-batches 4 --batch 48 --clip 1 --json | grep -q '"clip_wait": [1-9]' || say "no clip_wait"
for free in '--strategy 1f1b --stages 2 --clip 0' '--strategy ddp --replicas 2 --clip 1'; do
    sim --model resnet8 --batch 48 $free >out || say "$free: $(cat err)"
    ! grep -q '^clipping' out || say "$free: $(cat out)"
done
"$STRETTO" explain --device ref --model resnet8 --data synthetic --strategy 1f1b --stages 2 --clip 1 >out 2>err || say "explain: $(cat err)"
grep -q "^clipping  *the update waits for the norm" out || say "explain: no word of clipping: $(cat out)"

cat >cluster.yml <<'END'
classes:
  - {name: a, ranks: 4, gflops_per_s: 0.1, memory_gib: 0.000001, memory_gb_per_s: 1000}
links:
  in_host: {latency_us: 1, bandwidth_gb_per_s: 100}
slow_ranks:
  - {ranks: 2, factor: 5}
END
sim --model resnet8 --strategy 1f1b --stages 4 --micro-batches 8 --batch 32 --cluster cluster.yml --draw x.html >out
[ $? = 5 ] || say "cluster: it has no memory: $(cat err)"
grep -q 'of rank 2 (5 times slower)' out || say "the slow rank is not named: $(cat out)"
head -n 1 out | grep -q '^fits  *no: rank [0-3] needs' || say "too little memory is not said first: $(cat out)"
grep -q '<html' x.html && grep -q 'rank 3' x.html || say "x.html is no drawing"
"$STRETTO" explain -n 2 --device ref --threads 1 --model resnet8 --strategy 1f1b --micro-batches 2 --costs f=1,c=0.5 --draw x.svg >out 2>err || say "explain: $(cat err)"
grep -q '^forecast' out && grep -q '<svg' x.svg || say "explain shows no forecast"

# A number of units is called one; what a column counts is said.
sim --model vit-tiny --batch 64 --costs f=1,i=1,w=1,c=1 --strategy 1f1b --stages 2 --replicas 2 --micro-batches 4 >out || say "units: $(cat err)"
grep -Eq '^step +[0-9.]+ units$' out && grep -Eq '^exposed +[0-9.]+ units a step' out && grep -q '; in units$' out || say "units: $(cat out)"
grep -q '  others alike: ' out || say "others alike: $(cat out)"

# refused CODE TEXT OPTIONS
refused() {
    code=$1 part=$2
    shift 2
    sim --model resnet8 "$@" >out
    got=$?
    [ $got = "$code" ] || say "$*: exit $got, not $code"
    grep -qF -- "$part" err || say "$*: no '$part' in: $(cat err)"
    [ "$(wc -l <err)" -le 3 ] || say "$*: more than three lines: $(cat err)"
}
refused 2 'exclude one another' --costs f=1 --cluster cluster.yml
refused 2 "--costs: 'x' is not LETTER=NUMBER" --costs x
refused 2 'this run has 5' --strategy 1f1b --stages 5 --micro-batches 5 --batch 10 --cluster cluster.yml
refused 2 'must end in .svg or .html' --draw x.png
refused 2 '5 ranks are not 2 stages x 2 replicas' --strategy 1f1b -n 5 --stages 2 --replicas 2
sed -n '/^```json$/,/^```$/p' "$ROOT/docs/profile.md" | sed '1d;$d' >profile.json
refused 2 'was not measured on ref' --profile profile.json
refused 3 'nowhere' --profile nowhere
refused 3 'nowhere' --cluster nowhere
exit $failed
