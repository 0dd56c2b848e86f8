# --dtype bf16: who has it and who refuses it, what is half as large, and what a run writes down.
. "$ROOT/tests/train/lib.sh"
. "$ROOT/tests/cli/lib.sh"

# Where the instructions are missing: exit 2 and one line.
ONEDNN_MAX_CPU_ISA=AVX2 "$STRETTO" train --model mlp --dtype bf16 --steps 1 --out refused >out 2>err
code=$?
[ $code = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'error: --dtype bf16: .*; use f32' err ||
    say "without instructions: exit $code: $(cat out err)"
[ ! -e refused ] || say "a refused run has a folder"
"$STRETTO" train --dtype f16 --steps 1 --out refused >out 2>err
[ $? = 2 ] || say "--dtype f16 is taken"

# explain tells what train does, of whether f32 is faster here: both measure it. oneDNN 2 and 3 print types in two ways.
bf16=',exec,.*src[_:]bf16.*ic64oc64_ih28'
if ONEDNN_VERBOSE=1 "$STRETTO" explain --model mlp --dtype bf16 --threads 1 >out 2>err; then
    grep -q "$bf16" out || say "explain does not measure bf16: $(cat err)"
fi
ONEDNN_VERBOSE=1 "$STRETTO" explain --model mlp --threads 1 >out 2>err || say "explain: $(cat err)"
grep -q "$bf16" out && say "bf16 is measured for f32"

# Parameters are f32 in memory and in files; activations and messages between stages take half the bytes.
for dtype in f32 bf16; do
    options="--model mlp --device ref --threads 1 --batch 512 --dtype $dtype"
    # shellcheck disable=SC2086
    "$STRETTO" train $options --steps 3 --out $dtype --quiet || exit 1
    # shellcheck disable=SC2086
    "$STRETTO" explain $options --json >$dtype.json || exit 1
    # shellcheck disable=SC2086
    "$STRETTO" explain $options >screen || exit 1
    [ "$(grep -c '^device .* in bf16' screen)" = "$(echo $dtype | grep -c bf16)" ] || say "explain of $dtype: $(cat screen)"
    # shellcheck disable=SC2086
    "$STRETTO" explain $options -n 2 --strategy gpipe --micro-batches 2 --json >$dtype-2.json || exit 1
    [ "$(key $dtype/summary.json dtype)" = $dtype ] || say "summary.json has another dtype than $dtype"
    grep -q "^ *dtype: $dtype" $dtype/config.yml || say "config.yml does not say $dtype"
    "$STRETTO" compare $dtype/checkpoints/best/model.safetensors f32/checkpoints/best/model.safetensors --json |
        grep -q '"dtype": "BF16"' && say "a parameter is saved as bf16"
done
[ "$(key f32/summary.json param_hash)" != "$(key bf16/summary.json param_hash)" ] || say "bf16 has the bits of f32"
bytes() { sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p" "$1.json"; }
for what in parameters gradients optimizer; do
    a=$(bytes f32 $what) b=$(bytes bf16 $what)
    [ "$a" -gt 0 ] && [ "$a" = "$b" ] || say "$what: $a with f32, $b with bf16"
done
# beside what is half as large: samples and logits in activations, headers of messages
for what in f32,bf16,activations f32-2,bf16-2,communicator; do
    IFS=, read -r wide narrow name <<END
$what
END
    a=$(bytes "$wide" "$name") b=$(bytes "$narrow" "$name")
    [ "$b" -gt 0 ] && [ $((100 * b)) -lt $((60 * a)) ] || say "$name: $a with f32, $b with bf16"
done
exit $failed
