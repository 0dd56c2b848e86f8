# --strategy rpc as processes: a driver without a stage and the stages that it calls train to the bits of one device, save and
# go on; checkpoints fit other strategies; explain says what the driver costs; what cannot be is refused.
. "$ROOT/tests/train/lib.sh"
[ "$SAN" != thread ] || { echo "skip: ranks are processes"; exit 77; }
common="--model mlp --data synthetic:count=52,test_count=9 --threads 1 --batch 16 --micro-batches 4 --steps 9 --quiet"
# run FOLDER OPTIONS: one run, whose hash must be that of the first.
run() {
    folder=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $common --out "$folder" "$@" 2>err || { echo "$*: exit $?"; cat err; exit 1; }
    hash=$(key "$folder/summary.json" param_hash)
    : "${same:=$hash}"
    [ -n "$hash" ] && [ "$hash" = "$same" ] || { echo "$*: $hash, not $same"; exit 1; }
}
run one --strategy single
for ranks in 2 3; do run rpc-$ranks --strategy rpc -n $ranks; done
run threads --strategy rpc -n 3 --spawn threads --save-ranks
[ "$(key rpc-3/summary.json eval_loss)" ] || { echo "no evaluation"; exit 1; }
grep -q '"grad_norm":[0-9]*\.[0-9]' rpc-3/metrics.jsonl || { echo "the driver does not know the norm"; exit 1; }

# Killed driver, killed stage: what was saved is gone on with, also by one device and back.
for at in rank=0,step=6,at=CALL rank=2,step=6,at=SERVE; do
    rm -rf killed
    # shellcheck disable=SC2086
    STRETTO_FAULT=$at,do=kill "$STRETTO" train $common --strategy rpc -n 3 --save-every 4 --out killed 2>err &&
        { echo "$at: nothing was killed"; exit 1; }
    cp -r killed other
    run killed --strategy rpc -n 3 --save-every 4 --resume
    run other --strategy single -n 1 --save-every 4 --resume
    rm -rf other
done

# The program of one stage runs again from its text; the calls are in it.
grep -q '^#0 r0 CALL s0 m0 forward$' rpc-2/program.txt || { echo "program.txt has no calls"; exit 1; }
run again --strategy rpc -n 2 --program rpc-2/program.txt

# 2 stages x (2 x 4 passes + an update), and a meeting behind each backward, losses and norm.
# shellcheck disable=SC2086
"$STRETTO" explain $common --strategy rpc -n 3 --json >plan.json 2>/dev/null
grep -q '"calls_per_step": 18, "round_trips_per_step": 6' plan.json || { echo "explain --json"; cat plan.json; exit 1; }
"$STRETTO" explain --model mlp --strategy rpc -n 3 --micro-batches 4 >plan 2>/dev/null
grep -q '3 = a driver + 2 stages' plan && grep -q '^calls *18 calls a step' plan || { echo "explain"; cat plan; exit 1; }
"$STRETTO" check --model mlp --strategy rpc --stages 2 | grep -q '3 ranks, 2 stages' || { echo "check --stages 2"; exit 1; }

# refused WORDS OPTIONS
refused() {
    words=$1
    shift
    "$STRETTO" explain --model mlp --quiet --strategy rpc "$@" 2>err
    [ $? = 2 ] && grep -q -- "$words" err || { echo "$*: no '$words'"; cat err; exit 1; }
}
refused 'a driver and 1 stage' -n 1
refused 'a driver and 3 stage' -n 3 --stages 3
refused 'calls one pipeline' -n 5 --replicas 2
