# Replicas that do not meet at the end of a step: whichever rank is asked to stop or to save, all do so after the same step.
. "$ROOT/tests/ranks/lib.sh"
apart="--model mlp --threads 1 --batch 24 --steps 100000000 --log-every 1 --eval-every never --strategy pipedream --stages 2 --replicas 3"
# begun FOLDER LAST: steps that its metrics have
begun() { [ "$(sed -n 's/.*"kind":"train","step":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" 2>/dev/null | tail -n 1)0" -gt "${2}0" ]; }
# saved FOLDER: the steps of its checkpoints
saved() { ls "$1/checkpoints" 2>/dev/null | sed -n 's/^step-0*\([0-9]*\)$/\1/p' | sort -n; }
kept() { [ -n "$(saved "$1")" ]; }
for rank in 0 1 2 5; do
    # shellcheck disable=SC2086
    "$STRETTO" train $apart --save-every never --out run$rank >out 2>err &
    run=$!
    await 600 begun run$rank 5
    kill -USR2 "$(pid_of run$rank $rank)"
    await 600 kept run$rank
    first=$(saved run$rank | head -n 1)
    await 600 begun run$rank "$first"
    kill -TERM "$(pid_of run$rank $rank)"
    wait $run
    code=$?
    [ $code = 143 ] || { echo "rank $rank is asked to stop: exit code $code, not 143"; cat out err; exit 1; }
    nobody_left run$rank
    last=$(saved run$rank | tail -n 1)
    [ "$last" -gt "$first" ] || { echo "rank $rank: nothing was saved behind step $first"; exit 1; }
    code 0 train --out run$rank --resume --steps $((last + 3)) --quiet
done
