# After a resume the results tell of the whole run; a run that is finished is left as it is.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 32"
value() { sed -n "s/^ *\"$1\": \(.*[^,]\),*$/\1/p" "$2/summary.json"; }
same() { [ -n "$(value "$1" "$2")" ] && [ "$(value "$1" "$2")" = "$(value "$1" "$3")" ] || say "$1 is $(value "$1" "$3") in $3, $(value "$1" "$2") in $2"; }
is() { awk "BEGIN { exit !($1) }"; }

# shellcheck disable=SC2086
for ranks in "" "-n 2" "--strategy dp -n 2"; do
    rm -rf whole parts
    "$STRETTO" train $mlp $ranks --steps 12 --lr-policy const --warmup 0 --eval-every 5 --quiet --out whole || say "$ranks: a run failed"
    "$STRETTO" train $mlp $ranks --steps 7 --lr-policy const --warmup 0 --eval-every 5 --quiet --out parts || say "$ranks: a run failed"
    first_s=$(value wall_s parts)

    # Nothing to do: said, and no file of the results is touched.
    mkdir kept && cp -p parts/* kept 2>/dev/null
    for more in "" "--steps 5"; do
        "$STRETTO" train --resume --out parts $more >out 2>err || say "$ranks: a finished run: exit $?: $(cat err)"
        grep -Eq 'nothing to do: parts is at step 7( of 7|, beyond the 5 of this run), its' err || say "$ranks: a finished run: $(cat err)"
        grep -q '^training loss' out && say "$ranks: a finished run has results: $(cat out)"
        for file in kept/*; do
            case $file in *.log) continue ;; esac
            cmp -s "$file" "parts/${file#kept/}" || say "$ranks: nothing to do changed ${file#kept/}"
        done
        [ "$(ls kept)" = "$(ls parts | grep -v '^checkpoints$')" ] || say "$ranks: nothing to do left $(ls parts)"
    done
    "$STRETTO" train --resume --out parts --json >out 2>err || say "$ranks: a finished run: exit $?"
    [ "$(cat out)" = "{\"kind\":\"end\",\"step\":7,\"out\":\"parts\",\"param_hash\":$(value param_hash parts),\"exit\":0}" ] || say "$ranks: --json: $(cat out)"

    # Two more parts: what they come to is what the unbroken run came to.
    "$STRETTO" train --resume --out parts --steps 9 --quiet 2>err || say "$ranks: not resumed: $(cat err)"
    same loss_first whole parts
    [ "$(value eval_loss parts)" != null ] || say "$ranks: the last evaluation is lost"
    "$STRETTO" train --resume --out parts --steps 12 --quiet 2>err || say "$ranks: not resumed: $(cat err)"
    for key in loss_first loss_last eval_loss acc1 steps epochs param_hash; do same $key whole parts; done
    for key in wall_s user_s sys_s; do
        sum=$(sed -n "s/.*\"$key\":\([^,}]*\).*/\1/p" parts/history.jsonl | awk '{ sum += $1 } END { printf "%.12f", sum }')
        is "($sum - $(value $key parts)) ^ 2 < 1e-16" || say "$ranks: $key is $(value $key parts), its starts took $sum"
    done
    is "$first_s < $(value wall_s parts)" || say "$ranks: wall_s is $(value wall_s parts), its first part took $first_s"
    [ "$(wc -l <parts/history.jsonl)" = 3 ] || say "$ranks: the history: $(cat parts/history.jsonl)"
    sed -n '/Command lines/,/<\/pre>/p' parts/report.html >commands
    [ "$(grep -c ' train ' commands)" = 3 ] || say "$ranks: the report's command lines: $(cat commands)"
    grep -q -- '--steps 7 ' commands && grep -q -- '--resume --out parts --steps 9' commands || say "$ranks: the report's command lines: $(cat commands)"
    rm -r kept
done

# Killed between its last checkpoint and its results: a resume writes them.
cp -r parts cut && rm cut/summary.json cut/report.html cut/model.safetensors
"$STRETTO" train --resume --out cut --quiet 2>err || say "cut: exit $?: $(cat err)"
for key in loss_first loss_last eval_loss param_hash; do same $key whole cut; done
[ -s cut/model.safetensors ] && [ -s cut/report.html ] || say "cut: no results"

# Done without a checkpoint is done, too, and begins anew only to train on. Then the history is new; so with --overwrite.
rm -r cut/checkpoints
"$STRETTO" train --resume --out cut >out 2>err || say "done without a checkpoint: exit $?"
grep -q 'nothing to do' err && ! grep -q 'step 0' err || say "done without a checkpoint: $(cat err)"
"$STRETTO" train --resume --out cut --steps 13 >out 2>err || say "begun anew: exit $?: $(cat err)"
grep -q 'starting at step 1' err || say "begun anew: $(cat err)"
[ "$(wc -l <cut/history.jsonl)" = 1 ] || say "begun anew: $(cat cut/history.jsonl)"
# shellcheck disable=SC2086
"$STRETTO" train $mlp --steps 1 --out parts --overwrite --quiet || say "--overwrite failed"
[ "$(wc -l <parts/history.jsonl)" = 1 ] || say "--overwrite: $(cat parts/history.jsonl)"
# Without a step there is no training loss to show; the weights are evaluated.
# shellcheck disable=SC2086
"$STRETTO" train $mlp --weights whole --epochs 0 --out evaluated >out 2>err || say "--epochs 0: exit $?: $(cat err)"
grep -q '^test loss' out || say "--epochs 0: no test loss: $(cat out)"
grep -q '^training loss\|nan' out && say "--epochs 0: $(cat out)"
exit $failed
