# --save-profile: what a run wrote is read back and has a row for every operation of the model; forecasts and --balance time
# take it, also from ranks that ran other stages than this one.
. "$ROOT/tests/cli/lib.sh"
set -- --model resnet8 --data synthetic:count=64,test_count=8,size=8 --device ref --threads 1 -n 2
quick="--steps 7 --eval-every never --save-every never --quiet"
# shellcheck disable=SC2086
"$STRETTO" train "$@" --strategy ddp --batch 8 --micro-batches 2 $quick --save-profile ddp.json --out ddp 2>err || say "ddp: $(cat err)"
# shellcheck disable=SC2086
"$STRETTO" train "$@" --strategy 1f1b --batch 4 --micro-batches 2 $quick --save-profile pipe.json --out pipe 2>err || say "1f1b: $(cat err)"
for key in flops_per_ns bytes_per_ns instruction_ns operation_ns step_ratio wake_ns latency_ns; do
    grep -q "\"$key\"" ddp.json && grep -q "\"$key\"" pipe.json || say "no $key"
done
# Ranks that take all cores read their images in their own time.
"$STRETTO" train --model mlp --data synthetic:count=64,test_count=8,size=8 --device ref --threads "$(nproc --all)" --batch 8 $quick --save-profile all.json --out all 2>err || say "all cores: $(cat err)"
grep -q '"sample_ns"' all.json || say "all cores: no sample_ns"
# A note names the first operation without a row.
for profile in ddp.json pipe.json; do
    "$STRETTO" simulate "$@" --strategy 1f1b --batch 4 --micro-batches 2 --profile $profile >out 2>err || say "$profile: $(cat err)"
    grep -q "measured: $profile" out || say "$profile is not used: $(cat out)"
    [ ! -s err ] || say "$profile does not have every operation: $(cat err)"
done
"$STRETTO" simulate "$@" --strategy 1f1b --batch 8 --micro-batches 2 --profile ddp.json 2>err >out || say "other shapes: $(cat err)"
grep -q 'no row' err || say "other shapes than those measured: no note"
# Several profiles are one: each has the shapes that the other lacks.
# shellcheck disable=SC2086
"$STRETTO" train "$@" --strategy ddp --batch 16 --micro-batches 2 $quick --save-profile large.json --out large 2>err || say "larger batch: $(cat err)"
for batch in 4 8; do
    "$STRETTO" simulate "$@" --strategy 1f1b --batch $batch --micro-batches 2 --profile ddp.json,large.json >out 2>err || say "two profiles: $(cat err)"
    [ ! -s err ] || say "two profiles, batch $batch: $(cat err)"
done
grep -q 'measured: ddp.json,large.json' out || say "two profiles are not named: $(cat out)"
"$STRETTO" simulate "$@" --strategy 1f1b --batch 4 --micro-batches 2 --profile ddp.json,absent.json >out 2>err && say "a profile that is not there is taken"
grep -q 'absent.json' err || say "the profile that is not there is not named: $(cat err)"
"$STRETTO" simulate "$@" --strategy 1f1b --batch 4 --micro-batches 2 --profile ddp.json, >out 2>err && say "an empty name is taken"
grep -q 'a name is empty' err || say "an empty name: $(cat err)"
cp ddp.json d,p.json
"$STRETTO" simulate "$@" --strategy 1f1b --batch 4 --micro-batches 2 --profile d,p.json >out 2>err || say "a comma in a name: $(cat err)"
"$STRETTO" explain "$@" --strategy 1f1b --batch 4 --micro-batches 2 --profile ddp.json >out 2>err || say "explain: $(cat err)"
grep -q '^forecast' out || say "explain has no forecast: $(cat out)"
# Stages in equal parts of the measured time.
"$STRETTO" explain "$@" --strategy 1f1b --batch 4 --micro-batches 2 --balance time --profile ddp.json >out 2>err || say "--balance time: $(cat err)"
# shellcheck disable=SC2086
"$STRETTO" train "$@" --strategy 1f1b --batch 4 --micro-batches 2 --balance time --profile ddp.json $quick --out timed 2>err || say "a run with --balance time: $(cat err)"
"$STRETTO" simulate "$@" --strategy 1f1b --batch 4 --micro-batches 2 --balance time --profile ddp.json --json >told 2>err || say "simulate --json: $(cat err)"
if command -v python3 >/dev/null; then
    python3 - <<'END' || say "the summary's forecast is not that of simulate: $(grep predicted_step timed/summary.json)"
import json, sys
told, kept = json.load(open("told")), json.load(open("timed/summary.json"))["predicted_step_ms"]
pairs = ((kept["p50"], told["step"]), (kept["low"], told["step_low"]), (kept["high"], told["step_high"]))
sys.exit(not all(abs(ms * 1e6 - ns) <= 1e-6 * ns for ms, ns in pairs))
END
fi
"$STRETTO" explain "$@" --strategy 1f1b --batch 4 --micro-batches 2 --balance time >out 2>err && say "--balance time without times is taken"
# Nothing was measured: no file.
"$STRETTO" train "$@" --strategy ddp --batch 8 --steps 5 --eval-every never --save-every never --quiet --save-profile none.json --out none 2>err && say "5 steps are enough"
[ ! -f none.json ] || say "none.json is there"
exit $failed
