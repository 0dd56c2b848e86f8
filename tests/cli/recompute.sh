# --recompute: what explain says of it, where it is refused, that a run may be resumed with another, and that the memory which
# the plan promises is saved.
. "$ROOT/tests/cli/lib.sh"
gpipe="--model resnet8 --threads 1 --strategy gpipe --stages 2 -n 2 --eval-every never --lr-policy const --warmup 0"
small="$gpipe --data synthetic:count=64,test_count=8 --batch 16 --micro-batches 4"
field() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$1/summary.json"; } # RUN KEY

# shellcheck disable=SC2086
{
    "$STRETTO" explain $small --recompute always >out 2>err || say "explain: $(cat err)"
    tr -s ' \n' '  ' <out | grep -q 'recompute always: 4 of 4 forwards of a rank run again .* more a step; activations .* instead of' ||
        say "explain does not say what it costs and saves: $(cat out)"
    "$STRETTO" explain $small >out 2>err
    ! grep -q '^recompute' out || say "a row of nothing"
    for strategy in single ddp; do
        "$STRETTO" explain --model mlp --strategy $strategy --recompute always >out 2>err
        [ $? = 2 ] || say "$strategy: not refused"
        grep -q -e '--recompute always saves nothing with schedule single' err || say "$strategy: $(cat err)"
    done
    "$STRETTO" explain $small --recompute always:block >out 2>err || say "by block: $(cat err)"
    for mode in never except-last always except-last:block always:block; do
        grep -q "^  $mode  *[0-9.]*  *[0-9.]* m\{0,1\}s  [0-9.]* [KM]iB, [0-9.]* [KM]iB" out || say "no row of $mode: $(cat out)"
    done
    "$STRETTO" explain --model resnet8 --deal 2x1 --sync-bn --recompute always:block >out 2>err
    [ $? = 2 ] || say "lockstep by block: not refused"
    grep -q 'its replicas run in lockstep' err || say "lockstep by block: $(cat err)"

    # A program by blocks needs to know where they end.
    "$STRETTO" explain $small --recompute always:block --save-program blocks.txt --quiet || say "no program: exit $?"
    "$STRETTO" train $small --steps 2 --recompute always:block --program blocks.txt --out blocks --quiet || say "blocks: exit $?"
    "$STRETTO" train $small --steps 2 --program blocks.txt --out other --quiet 2>err
    [ $? = 2 ] || say "a program by blocks, without: not refused"
    grep -q 'the program recomputes by block, this run is with --recompute never' err || say "by blocks, without: $(cat err)"

    "$STRETTO" train $small --steps 2 --recompute always --out run --quiet || say "always: exit $?"
    "$STRETTO" train --resume --out run --steps 3 --recompute always:block --quiet 2>err || say "resumed by block: $(cat err)"
    "$STRETTO" train --resume --out run --steps 4 --recompute except-last --quiet 2>err || say "resumed: $(cat err)"
    "$STRETTO" train $small --steps 4 --out kept --quiet || say "never: exit $?"
    [ "$(field run param_hash)" = "$(field kept param_hash)" ] || say "the resumed run has other parameters"
}
[ -z "${SAN:-}" ] || exit $failed # a sanitizer takes memory of its own

# The first number of an array of summary.json: rank 0's.
first() { tr -d '\n' <"$1/summary.json" | sed "s/.*\"$2\": *\[ *\([0-9]*\).*/\1/"; } # RUN KEY
for policy in never always always:block; do
    # shellcheck disable=SC2086
    "$STRETTO" train $gpipe --data synthetic:count=256,test_count=8 --batch 256 --micro-batches 8 --steps 1 --save-every never \
        --recompute $policy --out $policy --quiet || say "$policy: exit $?"
done
for policy in always always:block; do
    saved=$(($(first never peak_bytes) - $(first $policy peak_bytes)))
    promised=$(($(first never predicted_peak_bytes) - $(first $policy predicted_peak_bytes)))
    [ $promised -gt $((16 << 20)) ] || say "$policy: only $promised bytes are promised"
    miss=$((saved > promised ? saved - promised : promised - saved))
    [ $miss -le $((2 << 20)) ] || [ $miss -le $((promised / 20)) ] || say "$policy: $saved bytes were saved, $promised promised"
done
exit $failed
