# --sync-bn and --save-ranks on the program itself: ranks differ in exactly the running statistics without it, in nothing
# with it; its program is checked like any other.
. "$ROOT/tests/train/lib.sh"
common="--model resnet8 --threads 1 --batch 24 --steps 5 --eval-every never --save-every never --quiet"
for spawn in threads processes; do
    [ "$SAN:$spawn" != "thread:processes" ] || continue
    # shellcheck disable=SC2086
    {
        "$STRETTO" train $common -n 2 --spawn $spawn --save-ranks --out own-$spawn || exit 1
        "$STRETTO" train $common -n 2 --spawn $spawn --save-ranks --sync-bn --out shared-$spawn || exit 1
    }
    "$STRETTO" compare own-$spawn/rank-0.safetensors own-$spawn/rank-1.safetensors >differ
    [ $? = 1 ] || { echo "$spawn: ranks have the same running statistics without --sync-bn"; exit 1; }
    sed -n 's/^  \([a-z][^ ]*\) .*/\1/p' differ | grep -v '^tensor$' | sort >differing
    # 9 batch norms, each with a running mean and a running variance
    [ "$(wc -l <differing)" = 18 ] && [ "$(grep -c 'running_\(mean\|var\)$' differing)" = 18 ] ||
        { echo "$spawn: other tensors than running statistics differ, or not all of them"; cat differ; exit 1; }
    "$STRETTO" compare shared-$spawn/rank-0.safetensors shared-$spawn/rank-1.safetensors ||
        { echo "$spawn: ranks differ with --sync-bn"; exit 1; }
    cmp -s shared-$spawn/rank-0.safetensors shared-$spawn/model.safetensors || { echo "rank 0 is not the model"; exit 1; }
done
same=$(key shared-threads/summary.json param_hash)
[ -n "$same" ] && [ "$same" != "$(key own-threads/summary.json param_hash)" ] || { echo "--sync-bn changed nothing"; exit 1; }
if [ -d shared-processes ]; then
    [ "$same" = "$(key shared-processes/summary.json param_hash)" ] || { echo "threads and processes differ"; exit 1; }
fi
[ "$(key shared-threads/summary.json sync_bn)" = true ] && [ "$(key own-threads/summary.json sync_bn)" = false ] ||
    { echo "summary.json does not say sync_bn"; exit 1; }

# The program says who waits for whom, runs again, and does not run without --sync-bn.
grep -q '^#[0-9]* r1 F .* q1$' shared-threads/program.txt || { echo "program.txt: F names no group"; exit 1; }
# shellcheck disable=SC2086
"$STRETTO" train $common -n 2 --spawn threads --sync-bn --program shared-threads/program.txt --out again || exit 1
[ "$(key again/summary.json param_hash)" = "$same" ] || { echo "the program saved trains otherwise"; exit 1; }
# shellcheck disable=SC2086
"$STRETTO" train $common -n 2 --spawn threads --program shared-threads/program.txt --out other 2>err
[ $? = 2 ] && grep -q 'sync-bn' err || { echo "a program that shares statistics ran without --sync-bn"; cat err; exit 1; }

# explain says it; one device replays it to the bit, and from its own program too.
"$STRETTO" explain -n 2 --sync-bn | grep -q '^sync-bn .*2 replicas: 9 exchanges forward and 9 backward' || { echo "explain says nothing"; exit 1; }
"$STRETTO" explain --sync-bn | grep -q '^sync-bn .*one replica' || { echo "explain says nothing of one replica"; exit 1; }
# shellcheck disable=SC2086
"$STRETTO" train $common --deal 2x1 --sync-bn --out deal || exit 1
for hash in param_hash buffer_hash; do
    [ "$(key deal/summary.json $hash)" = "$(key shared-threads/summary.json $hash)" ] || { echo "--deal 2x1: another $hash"; exit 1; }
done
# shellcheck disable=SC2086
"$STRETTO" train $common --deal 2x1 --sync-bn --program deal/program.txt --out deal-again || exit 1
[ "$(key deal-again/summary.json param_hash)" = "$same" ] || { echo "the program of --deal trains otherwise"; exit 1; }

# A loss that is not finite ends all ranks; none is left in an exchange.
# shellcheck disable=SC2086
timeout 60 "$STRETTO" train $common -n 2 --spawn threads --sync-bn --lr 1e30 --warmup 0 --out burst 2>err
[ $? = 6 ] || { echo "exit code of a burst with --sync-bn"; cat err; exit 1; }

# --overwrite takes the files of ranks away.
# shellcheck disable=SC2086
"$STRETTO" train $common -n 2 --spawn threads --overwrite --out own-threads || exit 1
[ ! -e own-threads/rank-1.safetensors ] || { echo "--overwrite left rank-1.safetensors"; exit 1; }
