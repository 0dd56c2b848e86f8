#!/bin/sh
# Random clusters and models: what plan recommends passes check and fits, and with up to 16 ranks a step of it runs in
# virtual time. SEEDS first..last; plan_random_more.sh has more of them.
. "$ROOT/tests/cli/lib.sh"
# Bounds of 124, 147, 169 and 193 were above their steps once.
: "${SEEDS:=1 2 3 4 5 6 124 147 169 193}"

cat >make.py <<'PY'
import random, sys
draw = random.Random(int(sys.argv[1]))
model = draw.choice(["--model mlp", "--model lenet --image-size 12", "--model resnet8", "--model vit-micro", "--model bert-tiny --data synthetic"])
kinds, ranks, classes = draw.choice([1, 1, 2]), 0, ""
for i in range(kinds):
    count = draw.choice([1, 2, 3, 4, 6, 8])
    ranks += count
    classes += "  - {name: c%d, ranks: %d, gflops_per_s: %.1f, memory_gib: %.4f, memory_gb_per_s: %.1f}\n" % (
        i, count, 10 ** draw.uniform(0, 4), 10 ** draw.uniform(-1.6, 1), 10 ** draw.uniform(0, 3))
hosts, left = "", ranks
while left:
    each = min(left, draw.choice([1, 2, 4, 8]))
    hosts += "  - {ranks: %d}\n" % each
    left -= each
link = lambda: "{latency_us: %.1f, bandwidth_gb_per_s: %.3f}" % (10 ** draw.uniform(0, 3), 10 ** draw.uniform(-2, 2))
open("cluster.yml", "w").write("classes:\n%shosts:\n%slinks:\n  in_host: %s\n  between_hosts: %s\n" % (classes, hosts, link(), link()))
print("%s --batch %d --cluster cluster.yml" % (model, draw.choice([4, 6, 8, 12, 16])))
PY

for seed in $SEEDS; do
    options=$(python3 make.py "$seed")
    # shellcheck disable=SC2086
    "$STRETTO" plan $options --json >plan.json 2>err
    code=$?
    [ $code = 5 ] && grep -q "nothing fits" err && continue
    [ $code = 0 ] || { say "seed $seed: plan $options: exit $code: $(cat err)"; continue; }
    python3 -c 'import json, sys; sys.exit(json.load(open("plan.json"))["closest_bound"] > 1 + 1e-9)' ||
        say "seed $seed: plan $options: a bound is above its step"
    command=$(python3 -c 'import json; print(json.load(open("plan.json"))["forecast"].split(" ", 2)[2])')
    ranks=$(python3 -c 'import json; print(json.load(open("plan.json"))["rows"][0]["ranks"])')
    eval "ends 0 check $command"
    eval "ends 0 simulate $command"
    rm -rf run
    [ "$ranks" -gt 16 ] || eval "ends 0 train $command --clock virtual --steps 1 --eval-every never --save-every never --out run --quiet"
done
exit $failed
