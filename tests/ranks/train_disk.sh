# A disk that is full or cannot be written to: the run ends with 3 and says what; nobody waits, nobody is blamed.
. "$ROOT/tests/ranks/lib.sh"
unshare -rm true 2>/dev/null || { echo "no mount namespaces of our own here"; exit 77; }
cat >inside <<'END'
mkdir full readonly
mount -t tmpfs -o size=1200k none full || exit 77
mount -t tmpfs -o size=16m none readonly || exit 77
echo x >readonly/x
mount -o remount,ro readonly || exit 77
timeout 60 "$STRETTO" train -n 3 $small --keep 100 --save-every 2 --out full/run >out 2>err
echo $? >code.full
ls full/run/checkpoints >found
rm -rf full/run
timeout 300 "$STRETTO" train -n 2 $small --steps 3000 --save-every never --eval-every never --out full/rows >out.rows 2>err.rows
echo $? >code.rows
timeout 60 "$STRETTO" train -n 3 $small --out readonly/run >out.readonly 2>err.readonly
echo $? >code.readonly
END
export small
unshare -rm sh inside || { echo "no tmpfs can be mounted here"; exit 77; }
[ "$(cat code.full)" = 3 ] || { echo "full: exit code $(cat code.full)"; cat out err; exit 1; }
says err 'No space left on device'
says err 'rank 0 ended: exit code 3'
! grep -q 'is lost' err || { cat err; exit 1; }
grep -q '^step-' found || { echo "no checkpoint is left"; cat found; exit 1; }
says err 'a checkpoint takes .* are free'
[ "$(cat code.rows)" = 3 ] || { echo "rows: exit code $(cat code.rows)"; cat out.rows err.rows; exit 1; }
[ "$(grep -c 'write failed' err.rows)" -le 6 ] || { echo "said more than once"; sort err.rows | uniq -c | head; exit 1; }
says err.rows 'full/rows lacks metrics.jsonl and events from step [0-9]* on, \(history.jsonl, \)*model.safetensors, trace.json, summary.json'
[ "$(cat code.readonly)" = 3 ] || { echo "read-only: exit code $(cat code.readonly)"; cat out.readonly err.readonly; exit 1; }
says err.readonly 'Read-only'
[ "$(wc -l <err.readonly)" -le 3 ] || { cat err.readonly; exit 1; }
