# A disk that takes no more while a run writes rows: said once, and at the end what the folder lacks.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 32 --steps 200 --eval-every never --log-every 1 --quiet"
# No file may be larger than 10 KiB: metrics.jsonl and the model are; summary.json is not.
# shellcheck disable=SC2086
full() { (trap '' XFSZ && ulimit -f 20 && exec "$STRETTO" train $mlp "$@") 2>err; }
full --save-every never --out run
code=$?
[ $code = 3 ] || say "exit $code, not 3: $(cat err)"
[ "$(grep -c 'metrics.jsonl: write failed' err)" = 1 ] || say "metrics.jsonl, not once: $(cat err)"
[ "$(grep -c . err)" -le 12 ] || say "many lines: $(cat err)"
rows=$(wc -l <run/metrics.jsonl) # whole ones: the last may be cut at any byte
[ "$rows" -gt 5 ] && [ "$rows" -lt 200 ] || say "$rows rows"
grep -q "error: run lacks metrics.jsonl and events from step $((rows + 1)) on, \(history.jsonl, \)*model.safetensors" err || say "not what it lacks: $(cat err)"
[ "$(grep -c lacks err)" = 1 ] || say "more than once: $(cat err)"
grep -q '"exit": 3' run/summary.json || say "the summary: $(cat run/summary.json)"
grep -q '"steps": 200' run/summary.json || say "the run did not go on: $(cat run/summary.json)"
ls -A run | grep '\.tmp\.' && say "left behind"

# So with the tensors of each rank, which no others stand for.
full --save-every never --save-ranks -n 2 --spawn threads --log-every 200 --out ranks
code=$?
[ $code = 3 ] || say "ranks: exit $code, not 3: $(cat err)"
grep -q 'error: ranks lacks rank-N.safetensors, .*model.safetensors' err || say "ranks: not what it lacks: $(cat err)"
grep -q '"exit": 3' ranks/summary.json || say "no summary of the ranks: $(ls ranks)"

# With saves: the step whose rows are missing is not saved, and the run says why it ends.
full --save-every 150 --out saving
code=$?
[ $code = 3 ] || say "exit $code, not 3: $(cat err)"
grep -q 'step 150 is not saved: the folder lacks metrics.jsonl and events from step' err || say "no reason: $(cat err)"
[ ! -e saving/checkpoints ] || say "saved nevertheless"

# A run without trouble lacks nothing.
# shellcheck disable=SC2086
"$STRETTO" train $mlp --out whole 2>err || say "a run failed"
[ ! -s err ] || say "said: $(cat err)"
exit $failed
