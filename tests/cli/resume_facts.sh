# What docs/checkpoints.md says of facts: each one of a manifest stands there, in the row that tells how a resume takes
# another value of it.
. "$ROOT/tests/cli/lib.sh"
base="--model resnet8 --threads 1 --lr-policy step --optimizer adamw --steps 2 --quiet"
# shellcheck disable=SC2086
"$STRETTO" train $base --out run || exit 1
sed -n 's/^| \(fixed\|told\|ran on\) | \([^|]*\) |.*/\1: \2/p' "$ROOT/docs/checkpoints.md" >rows
facts=$(sed -n '/"facts"/,/}/s/^ *"\([a-z0-9-]*\)": ".*/\1/p' run/checkpoints/best/manifest.json)
[ "$(echo "$facts" | wc -l)" -gt 20 ] || say "few facts: $facts"
for fact in $facts; do
    grep -q "[: ]$fact\(,\|$\)" rows || say "docs/checkpoints.md does not speak of the fact $fact"
done

# Another value of each; those left out here have none that an option gives by itself.
while IFS='|' read -r kind option value; do
    grep -q "^$kind:.* $option\(,\|$\)" rows || say "$option is not $kind in docs/checkpoints.md"
    rm -rf copy
    cp -r run copy
    "$STRETTO" train --resume --out copy --steps 3 --quiet "--$option" "$value" >out 2>err
    got=$?
    case $kind in
    fixed) [ $got = 2 ] && grep -q "error: .*$option" err || say "--$option $value: exit $got: $(cat err)" ;;
    told) [ $got = 0 ] && grep -q "warning: $option was" err || say "--$option $value: exit $got: $(cat err)" ;;
    esac
done <<'END'
fixed|model|mlp
fixed|seed|7
fixed|batch|32
fixed|sum|tree
fixed|drop-last|on
fixed|classes|12
fixed|sync-bn|on
fixed|dropout|0.2
fixed|dtype|bf16
told|lr|0.5
told|lr-policy|const
told|lr-gamma|0.5
told|lr-step|1
told|weight-decay|0.5
told|no-decay|none
told|clip|3
told|label-smoothing|0.1
told|warmup|1
told|beta1|0.5
told|beta2|0.5
told|eps|0.1
told|deal|2x1
told|deterministic|off
told|conv|direct
told|steps|4
END

# Whether the head of a language model is tied shows in tensors, too; the option is named.
"$STRETTO" train --model gpt2-nano --data synthetic:count=4,seq=8 --batch 4 --threads 1 --untie --steps 1 --eval-every never --quiet --out tied >err 2>&1 || say "--untie: $(cat err)"
answers 2 "untie was on, this run has off" train --out tied --resume --untie off --steps 2
# What goes with the strategy: the column of the table, and the sentence that lists it.
layout=$(sed -n 's/^OPTION([A-Z]*, *[a-z_]*, *[A-Z]*, *"\([a-z-]*\)".* LAID_OUT[ ,].*/\1/p' "$ROOT/src/base/options.def" | sort)
told=$(tr '\n' ' ' <"$ROOT/docs/checkpoints.md" | sed 's/.*what the run kept of \(.*\) is forgotten.*/\1/; s/,* and /, /g' | tr -s ', ' '\n' | sort)
[ "$layout" = "$told" ] || say "docs/checkpoints.md: goes with the strategy: $told; options.def: $layout"
exit $failed
