# Rows of metrics and progress where steps overlap: what all ranks see, and the norm of all stages' gradients, on both clocks.
. "$ROOT/tests/train/lib.sh"
common="--model vit-micro --data synthetic:size=8,count=96,test_count=8 --batch 12 --threads 1 --steps 7 --log-every 1 --clip 0 --save-every never"
# shellcheck disable=SC2086
{
    "$STRETTO" train $common --strategy single --deal 2x1 --quiet --out one || exit 1
    "$STRETTO" train $common --strategy single --quiet --out alone || exit 1
    for stages in 2 3; do
        "$STRETTO" train $common --strategy pipedream --stages $stages --replicas 2 --eval-every 3 --out wall-$stages >progress || exit 1
        "$STRETTO" train $common --strategy pipedream --stages $stages --replicas 2 --eval-every never --clock virtual --out virtual-$stages >lines || exit 1
    done
    "$STRETTO" train $common --strategy pipedream-2bw --stages 2 --micro-batches 3 --eval-every never --quiet --out bw || exit 1
}
grep -q 'step 7/7 .* mini-batches 14  replicas at 7 to 7' progress || { echo "progress counts no mini-batches"; cat progress; exit 1; }
grep -q 'step 7/7 .* virtual time [0-9.]* ms' lines || { echo "progress has no virtual time"; cat lines; exit 1; }
python3 - <<'END'
import json
import math

def rows(run):
    return [row for row in map(json.loads, open(run + "/metrics.jsonl")) if row["kind"] == "train"]

first = rows("one")[0]
for stages in (2, 3):
    wall, virtual = rows(f"wall-{stages}"), rows(f"virtual-{stages}")
    assert len(wall) == len(virtual) == 7
    # The first step reads the first version: it is that of one device.
    assert (wall[0]["loss"], wall[0]["grad_norm"]) == (first["loss"], first["grad_norm"]), (wall[0], first)
    for a, b in zip(wall, virtual):
        assert all(a[key] == b[key] for key in ("loss", "grad_norm", "rank_loss", "lr", "numbers")), (a, b)
        for row in (a, b):
            last = [row["rank_loss"][pipeline * stages + stages - 1] for pipeline in range(2)]
            others = [loss for rank, loss in enumerate(row["rank_loss"]) if rank % stages < stages - 1]
            assert math.isclose(sum(last) / 2, row["loss"], rel_tol=1e-12) and last[0] != last[1] and set(others) == {None}, row
            assert len(row["rank_ms"]) == 2 * stages and all(ms > 0 for ms in row["rank_ms"]), row
            assert (row["numbers"], row["least"], row["most"]) == (2 * row["step"], row["step"], row["step"]), row
    assert [row["virtual_s"] for row in virtual] == sorted(row["virtual_s"] for row in virtual)
one, bw = rows("alone")[0], rows("bw")[0]
assert math.isclose(one["loss"], bw["loss"], rel_tol=1e-6) and math.isclose(one["grad_norm"], bw["grad_norm"], rel_tol=1e-4), (one, bw)
END
