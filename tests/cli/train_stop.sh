# A run that is stopped and resumed ends as one that was not: SIGINT, SIGTERM, SIGUSR2, --time-limit.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 192 --steps 64 --log-every 1 --eval-every never --save-every never"
hash_of() { sed -n 's/^ *"param_hash": "\(.*\)",*$/\1/p' "$1/summary.json"; }
# Until the command after the limit succeeds: 0.05 s a try.
await() {
    tries=$1
    shift
    while ! "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "waited in vain for: $*"; exit 1; }
        sleep 0.05
    done
}
has_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }
has_checkpoint() { ls "$1"/checkpoints/step-*/manifest.json >/dev/null; }

# shellcheck disable=SC2086
"$STRETTO" train $mlp --out whole --quiet || say "the unbroken run failed"
want=$(hash_of whole)
[ -n "$want" ] || say "no param_hash in the summary"

# stop SIGNAL CODE: stops a run in the middle, resumes it.
stop() {
    # env: a shell makes background jobs ignore SIGINT, and a run keeps that
    # shellcheck disable=SC2086
    env --default-signal=INT "$STRETTO" train $mlp --out "$1" >"$1.out" 2>"$1.err" &
    pid=$!
    await 400 has_lines "$1/metrics.jsonl" 4
    kill -"$1" $pid
    wait $pid
    code=$?
    [ $code = "$2" ] || say "$1: exit $code, not $2"
    grep -q "SIG$1: stopping after this step, then saving (again: stop without saving)" "$1.err" || say "$1: no acknowledgement"
    grep -q "stopped by SIG$1 .*saved; --resume continues it" "$1.err" || say "$1: $(cat "$1.err")"
    has_checkpoint "$1" || say "$1: no checkpoint"
    grep -q "\"exit\": $2" "$1/summary.json" || say "$1: the summary does not tell the exit code"
    "$STRETTO" train --resume --out "$1" >"$1.out" 2>"$1.err" || say "$1: the resumed run failed: $(cat "$1.err")"
    grep -q "resuming from" "$1.err" || say "$1: did not resume"
    [ "$(hash_of "$1")" = "$want" ] || say "$1: ends with $(hash_of "$1"), not $want"
    [ "$(wc -l <"$1/metrics.jsonl")" = 64 ] || say "$1: $(wc -l <"$1/metrics.jsonl") lines of metrics for 64 steps"
}
stop INT 130
stop TERM 143

# One that is not ours to handle ends a run at once, sent once. The address sanitizer takes SIGSEGV for itself.
signals="ABRT:134"
[ -n "${SAN:-}" ] || signals="$signals SEGV:139"
ulimit -c 0 # to write a core may take longer than the wait
for signal in $signals; do
    "$STRETTO" train --model mlp --device ref --threads 1 --steps 100000000 --save-every never --eval-every never --out "${signal%:*}" >sent.out 2>&1 &
    pid=$!
    await 400 test -s "${signal%:*}/metrics.jsonl"
    kill -"${signal%:*}" $pid
    tries=2400
    while kill -0 $pid 2>/dev/null && [ $tries -gt 0 ]; do sleep 0.05; tries=$((tries - 1)); done
    [ $tries -gt 0 ] || { say "SIG${signal%:*} did not end the run"; kill -KILL $pid; }
    wait $pid
    code=$?
    [ $code = "${signal#*:}" ] || say "SIG${signal%:*}: exit $code"
done

# The longest time there is, is a time: the run does not end before its steps.
"$STRETTO" train --model mlp --device ref --threads 1 --steps 2 --out longest --time-limit 1e9 --quiet || say "--time-limit 1e9: exit $?"

# SIGUSR2 saves and goes on.
# shellcheck disable=SC2086
"$STRETTO" train $mlp --out usr2 >usr2.out 2>usr2.err &
pid=$!
await 400 has_lines usr2/metrics.jsonl 4
kill -USR2 $pid
await 400 has_checkpoint usr2
wait $pid || say "SIGUSR2 ended the run"
grep -q "as asked" usr2.err || say "SIGUSR2: $(cat usr2.err)"
[ "$(hash_of usr2)" = "$want" ] || say "SIGUSR2 changed the training"

# The second signal does not wait for the step.
env --default-signal=INT "$STRETTO" train --model resnet20 --device ref --threads 1 --batch 1500 --steps 3 --out twice >twice.out 2>twice.err &
pid=$!
await 400 test -s twice/program.txt
sleep 0.3
kill -INT $pid
await 400 grep -q 'SIGINT: stopping after this step' twice.err # the step is far from its end
kill -TERM $pid
wait $pid
code=$?
[ $code = 143 ] || say "the second signal: exit $code, not 143"
[ ! -e twice/summary.json ] || say "the second signal waited"

# --time-limit, as often as it takes.
# shellcheck disable=SC2086
"$STRETTO" train $mlp --out limited --time-limit 0.4 --quiet
code=$?
runs=1
while [ $code = 142 ] && [ $runs -lt 60 ]; do
    has_checkpoint limited || say "--time-limit: no checkpoint"
    "$STRETTO" train --resume --out limited --quiet 2>limited.err
    code=$?
    runs=$((runs + 1))
done
[ $code = 0 ] || say "--time-limit: exit $code after $runs runs: $(cat limited.err)"
[ $runs -gt 1 ] || echo "note: the whole run took less than its limit"
[ "$(hash_of limited)" = "$want" ] || say "--time-limit: ends with $(hash_of limited), not $want"

# Resuming a run that is done does nothing; resuming nothing starts at step 1.
"$STRETTO" train --resume --out whole 2>err >/dev/null || say "resuming a finished run failed"
grep -q "nothing to do" err || say "resuming a finished run: $(cat err)"
"$STRETTO" train --model mlp --device ref --steps 1 --resume --out none 2>err >/dev/null || say "resuming nothing failed"
grep -q "starting at step 1" err || say "resuming nothing: $(cat err)"
exit $failed
