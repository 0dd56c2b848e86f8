# --recompute: what explain says of it, where it is refused, that a run may be resumed with another, and that the memory which
# the plan promises is saved.
set -u
failed=0
say() { echo "$*"; failed=1; }
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

    "$STRETTO" train $small --steps 2 --recompute always --out run --quiet || say "always: exit $?"
    "$STRETTO" train --resume --out run --steps 4 --recompute except-last --quiet 2>err || say "resumed: $(cat err)"
    "$STRETTO" train $small --steps 4 --out kept --quiet || say "never: exit $?"
    [ "$(field run param_hash)" = "$(field kept param_hash)" ] || say "the resumed run has other parameters"
}
[ -z "${SAN:-}" ] || exit $failed # a sanitizer takes memory of its own

# The first number of an array of summary.json: rank 0's.
first() { tr -d '\n' <"$1/summary.json" | sed "s/.*\"$2\": *\[ *\([0-9]*\).*/\1/"; } # RUN KEY
for policy in never always; do
    # shellcheck disable=SC2086
    "$STRETTO" train $gpipe --data synthetic:count=256,test_count=8 --batch 256 --micro-batches 8 --steps 1 --save-every never \
        --recompute $policy --out $policy --quiet || say "$policy: exit $?"
done
saved=$(($(first never peak_bytes) - $(first always peak_bytes)))
promised=$(($(first never predicted_peak_bytes) - $(first always predicted_peak_bytes)))
[ $promised -gt $((16 << 20)) ] || say "only $promised bytes are promised"
miss=$((saved > promised ? saved - promised : promised - saved))
[ $miss -le $((2 << 20)) ] || [ $miss -le $((promised / 20)) ] || say "$saved bytes were saved, $promised promised"
exit $failed
