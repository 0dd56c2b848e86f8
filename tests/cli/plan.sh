#!/bin/sh
# stretto plan: its numbers are those of simulate and explain with the printed command, what it refuses, and with which
# exit code.
. "$ROOT/tests/cli/lib.sh"

field() { # FILE KEY: of the first row
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["rows"][0][sys.argv[2]])' "$1" "$2"
}
top() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }

# The first row against simulate and explain. The part of memory that planning takes is measured at each start: half a
# MiB apart is what a run is given, too.
compare() { # NAME OPTIONS...
    name=$1
    shift
    "$STRETTO" plan "$@" --json >"$name.json"
    command=$(top "$name.json" forecast)
    rest=${command#stretto simulate }
    eval "\"\$STRETTO\" simulate $rest --json" >"$name.simulate"
    eval "\"\$STRETTO\" explain $rest --json" >"$name.explain"
    python3 - "$name" <<'PY' || say "$name: plan and the printed command differ"
import json, sys
name = sys.argv[1]
row = json.load(open(name + ".json"))["rows"][0]
forecast, plan = json.load(open(name + ".simulate")), json.load(open(name + ".explain"))
for key in ("step", "step_low", "step_high", "bubble", "exposed"):
    assert abs(row[key] - forecast[key]) <= 1e-9 * abs(forecast[key]), (name, key, row[key], forecast[key])
for other in (forecast["peak_bytes"], plan["predicted_peak_bytes"]):
    other = max(other) if isinstance(other, list) else other
    assert abs(row["peak_bytes"] - other) <= 1 << 20, (name, row["peak_bytes"], other)
assert row["stages"] * row["replicas"] == forecast["ranks"] == row["ranks"], name
assert row["micro_batches"] == forecast["micro_batches"], name
PY
}
compare two --model mlp -n 2
compare pipes --model resnet8 --batch 8 -n 3 --stages 3
compare word --model lenet --image-size 28 --batch 16 --cluster 2x2:xeon-8c,pcie4,1gbe
compare limit --model lenet --image-size 28 --batch 16 -n 2 --memory-limit 60M

# What is fixed stays in the command.
case $(top pipes.json command) in *"--stages 3"*) ;; *) say "the command forgets --stages" ;; esac

# The text names the first row, the families and both commands.
"$STRETTO" plan --model mlp -n 2 >text
grep -q "why it is not first" text || say "no families"
grep -q "^  stretto train --model mlp" text || say "no command to copy"
grep -q "of 2 ranks work" text || say "single is not told why it is slower"

# Fewer ranks than there are: no multiple of 3 divides the batch, and the model has one stage.
"$STRETTO" plan --model mlp --batch 8 -n 3 --stages 1 >idle
grep -q -- "--batch 9 would" idle || say "the nearest batch is not named"
grep -q "ranks 2 to 2" idle || say "idle ranks are not named"

# Batch norm.
"$STRETTO" plan --model resnet8 --batch 8 -n 2 | grep -q "other statistics" || say "rows with other statistics look alike"

# What is frozen is an option like the others.
ends 0 plan --model resnet8 --batch 8 -n 2 --freeze 1 --stages 1
ends 0 explain --model resnet8 --batch 8 -n 2 --freeze 1 --zero-stage 2 --recompute always:block

# The file of --write is the first row, and trains; ranks of several hosts are started with it.
"$STRETTO" plan --model mlp -n 2 --threads 1 --write plan.yml --json >written.json
case $(top written.json command) in *"--strategy $(sed -n 's/^strategy: //p' plan.yml)"*) ;; *) say "another plan was written: $(cat plan.yml)" ;; esac
ends 0 train --config plan.yml --steps 1 --quiet --out of_file
"$STRETTO" plan --model mlp --stages 2 --cluster 2x1:xeon-8c,1gbe --write hosts.yml >hosts
grep -qx "  stretto train --config hosts.yml --hostfile HOSTS" hosts || say "no command for several hosts: $(tail -5 hosts)"
grep -q "order of the cluster: h0 slots=1, h1 slots=1" hosts || say "the order of HOSTS is not said"
command=$(sed -n 's/^  stretto \(launch .*\)/\1/p' hosts)
# shellcheck disable=SC2086
ends 0 $command
grep -q -- "--nodes=2" out || say "the job has not two nodes"

# --draw: a point for each plan that was simulated, those with a timeline lead to it.
ends 0 plan --model mlp -n 2 --draw plans.html --json
python3 - <<'PY' || say "plans.html is not whole"
import base64, json, re
page, plan = open("plans.html").read(), json.load(open("out"))
assert page.count("<circle ") == plan["simulated"], (page.count("<circle "), plan["simulated"])
links, ids = set(re.findall('href="#(plan-\\d+)"', page)), set(re.findall('id="(plan-\\d+)"', page))
assert links == ids and "plan-1" in ids and len(ids) >= 10, ids
images = re.findall('base64,([^"]*)"', page)
assert len(images) == len(ids) and all(base64.b64decode(i).rstrip().endswith(b"</svg>") for i in images)
assert 'class="best"' in page and plan["command"].replace("&", "&amp;") in page
PY
ends 0 plan --model mlp -n 2 --draw plans.html --quiet
answers 2 "ends in .html" plan --model mlp -n 2 --draw plans.svg

# --strategy best runs the first row; config.yml never says best, and a run that is resumed keeps its deal.
ends 0 train --model mlp -n 2 --threads 1 --strategy best --steps 2 --out best
first=$(top written.json command)
case $first in *"--strategy $(sed -n 's/^strategy: //p' best/config.yml)"*) ;; *) say "best is not the first row of plan" ;; esac
grep -q "^best  " out || say "what was found is not printed"
deal() { sed -n "s/^batch  *64 = \([0-9]* replica.* x [0-9]* micro-batch\).*/\1/p" out; }
before=$(deal)
ends 0 train --out best --resume --strategy best --steps 4
[ "$(deal)" = "$before" ] && [ -n "$before" ] || say "another deal than $before: $(deal)"
answers 2 "--strategy best searches for the ranks of one command" train --model mlp --strategy best --nodes 2 --node-rank 0
answers 2 "--strategy best is for train" check --model mlp -n 2 --strategy best

# --what-if searches again, on other machines; the first row of before is measured there.
cluster="--model lenet --image-size 28 --cluster 2x2:xeon-8c,pcie4,1gbe"
what() { # CHANGE EXPRESSION: of the answer, in which w is what_if and r the first row of before
    # shellcheck disable=SC2086
    "$STRETTO" plan $cluster --what-if "$1" --json >what.json 2>err || say "--what-if $1: $(cat err)"
    python3 - "$2" <<'PY' || say "--what-if $1: $2 does not hold: $(cat what.json)"
import json, sys
plan = json.load(open("what.json"))
sys.exit(not eval(sys.argv[1], {"w": plan["what_if"], "r": plan["rows"][0]}))
PY
}
what slow=0-1:3 'w["old_step"] > 2 * r["step"] and w["first"]["step"] > r["step"]'
what slow=h0:1 'w["old_step"] == r["step"] == w["first"]["step"]'
what without=h0 'w["ranks"] == 2'
what without=0-2 'w["ranks"] == 1 and w["old_step"] is None and "too many" in w["old"] and w["first"]["ranks"] == 1'
what budget=100KiB 'w["first"]["sent_bytes"] <= 100 << 10 < r["sent_bytes"] and "send" in w["old"]'
cluster="--model lenet --image-size 28 -n 2 --stages 2"
what slow=1:2 'w["old_step"] > r["step"]'
answers 2 "numbered from 0" plan --model mlp -n 2 --what-if slow=9:2
answers 2 "--cluster describes some" plan --model mlp -n 2 --what-if link=0:1:2
answers 2 "is no factor" plan --model mlp -n 2 --what-if slow=1:fast
answers 2 "are expected" plan --model mlp -n 2 --what-if fewer=1

# Refusals.
answers 2 "--stages 3 needs 3 ranks" plan --model mlp -n 2 --stages 3
answers 2 "--batch 64 is no multiple of --micro-batches 7" plan --model mlp -n 2 --micro-batches 7
answers 5 "nothing fits" plan --model vit-tiny --data synthetic -n 2 --memory-limit 20M
grep -q "too much" err && grep -q "more" err || say "it is not said by how much, and what would fit: $(cat err)"
answers 2 "--strategy gpipe and --stages 1" plan --model mlp -n 2 --strategy gpipe --stages 1
answers 2 "--delay" plan --model mlp -n 2 --delay f=5ms
answers 2 "--hetero is for one plan" plan --model mlp -n 2 --hetero base=10ms
answers 2 "leave it out; --cluster forecasts for other devices" plan --model mlp -n 2 --clock virtual
answers 2 "--strategy diloco" plan --model mlp -n 2 --strategy diloco
answers 2 "--sync local" plan --model mlp -n 2 --sync local
answers 2 "--group fifo: replicas train apart" plan --model mlp -n 2 --group fifo
answers 2 "--sync-every 4: replicas train apart" plan --model mlp -n 2 --sync-every 4
printf '%s\n' '{"step":0,"frozen":0,"of":2,"ranks":2,"stages":2,"replicas":1,"micro_batches":4,"batch":64}' >course.jsonl
answers 2 "--course is for one plan" plan --model mlp -n 2 --course course.jsonl
answers 2 "two links" plan --model mlp --cluster 2x8:a100-40,nvlink
answers 2 "is no class" plan --model mlp --cluster 8x1:a100,10gbe
answers 2 "is no link" plan --model mlp --cluster 8x1:a100-40,10gb

# simulate and explain take all ranks of a cluster, too, unless they are told fewer.
"$STRETTO" simulate --model mlp --cluster 2x2:xeon-8c,pcie4,1gbe --json >all
[ "$(python3 -c 'import json; print(json.load(open("all"))["ranks"])')" = 4 ] || say "simulate has not all ranks"
"$STRETTO" simulate --model mlp --cluster 2x2:xeon-8c,pcie4,1gbe -n 2 --json >some
[ "$(python3 -c 'import json; print(json.load(open("some"))["ranks"])')" = 2 ] || say "simulate has not -n ranks"
"$STRETTO" explain --model mlp --cluster 2x2:xeon-8c,pcie4,1gbe | grep -q "4 ranks\|4 = " || say "explain has not all ranks"
exit $failed
