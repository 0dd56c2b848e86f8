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

# Refusals.
answers 5 "nothing fits" plan --model vit-tiny --data synthetic -n 2 --memory-limit 20M
grep -q "too much" err && grep -q "more" err || say "it is not said by how much, and what would fit: $(cat err)"
answers 2 "--strategy gpipe and --stages 1" plan --model mlp -n 2 --strategy gpipe --stages 1
answers 2 "--delay" plan --model mlp -n 2 --delay f=5ms
answers 2 "--hetero is for one plan" plan --model mlp -n 2 --hetero base=10ms
answers 2 "leave it out; --cluster forecasts for other devices" plan --model mlp -n 2 --clock virtual
answers 2 "--strategy diloco" plan --model mlp -n 2 --strategy diloco
answers 2 "--sync local" plan --model mlp -n 2 --sync local
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
