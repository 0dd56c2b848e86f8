# --deepspeed: keys become options below what is typed; what cannot be obeyed is refused by name; the note is said once.
. "$ROOT/tests/cli/lib.sh"
run="--model mlp --device ref --threads 1 --steps 1"
cat >ds.json <<'END'
{"train_batch_size": 64, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5,
 "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.98], "weight_decay": 0.1}},
 "wall_clock_breakdown": true}
END
"$STRETTO" train $run -n 2 --lr 0.01 --deepspeed ds.json --out run >out 2>err || say "train: exit $?: $(cat err)"
for line in 'batch: 64' 'micro-batches: 4' 'micro-batch-size: 8' 'optimizer: adamw' 'beta2: 0.98' 'clip: 0.5' 'lr: 0.01'; do
    grep -qx "$line" run/config.yml || say "no '$line' in config.yml"
done
[ "$(cat out err | grep -c 'keys without effect here: wall_clock_breakdown')" = 1 ] || say "the note is not said once: $(cat out err)"

# The same as typing them; a file of --config wins, too.
"$STRETTO" train $run -n 2 --batch 64 --micro-batches 4 --clip 0.5 --optimizer adamw --lr 0.01 --beta2 0.98 --weight-decay 0.1 --no-decay none --quiet --out typed || say typed
hash_of() { sed -n 's/.*"param_hash": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }
[ -n "$(hash_of run)" ] && [ "$(hash_of run)" = "$(hash_of typed)" ] || say "other bits than typed: $(hash_of run) $(hash_of typed)"
echo 'clip: 2' >config.yml
"$STRETTO" explain $run -n 2 --config config.yml --deepspeed ds.json >out 2>err || say "config: $(cat err)"
grep -q 'clip 2' out || say "--config does not win: $(cat out)"

# The batch identity counts replicas, not ranks: 64 = 2 replicas x 4 x 8 on 4 ranks of 2 stages.
"$STRETTO" explain --model resnet8 --strategy 1f1b --stages 2 --replicas 2 --deepspeed ds.json >out 2>err || say "pipelines: $(cat err)"
grep -q '64 = 2 replicas x 4 micro-batches x 8 samples' out || say "pipelines: $(grep batch out)"

refused() { # WORDS OPTION...
    words=$1
    shift
    "$STRETTO" explain $run "$@" >out 2>err
    [ $? = 2 ] && grep -q "$words" err || say "$*: $(cat err)"
}
# bf16; what is typed wins.
echo '{"bf16": {"enabled": true}}' >bf16.json
"$STRETTO" explain $run --deepspeed bf16.json >out 2>err || say "bf16: $(cat err)"
grep -q bf16 out || say "bf16: $(cat out)"
"$STRETTO" explain $run --deepspeed bf16.json --dtype f32 >out 2>err || say "f32: $(cat err)"
! grep -q bf16 out || say "bf16 wins over what is typed: $(cat out)"
refused '64 = ? x 4 x 3 does not hold' -n 3 --deepspeed ds.json
echo '{"train_batch": 3}' >typo.json
refused 'typo.json:1: train_batch: unknown key; did you mean train_batch_size' --deepspeed typo.json
echo '{"zero_optimization": {"stage": 1}}' >zero.json
if "$STRETTO" explain --help | grep -q -- --zero-stage; then
    "$STRETTO" explain $run -n 2 --deepspeed zero.json >out 2>err || say "zero: $(cat err)"
    grep -q '^strategy .*, with --zero-stage 1: ZeRO-1 ' out || say "zero: $(grep ^strategy out)"
else
    refused 'zero_optimization.stage asks for --zero-stage 1, an option that this version does not have' -n 2 --deepspeed zero.json
fi
exit $failed
