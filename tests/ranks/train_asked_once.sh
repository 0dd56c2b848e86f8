# A request to save that reaches ranks in different steps is one request: a rank that gets it while the ranks save for
# another's does not ask again. A later one is another request.
. "$ROOT/tests/ranks/lib.sh"
STRETTO_FAULT=rank=1,at=SAVE,do=stop timeout -k 5 120 "$STRETTO" train -n 3 --model mlp --threads 1 --batch 24 \
    --steps 1000000 --save-every never --eval-every never --log-every 1 --out run >out 2>err &
launcher=$!
trap 'kill -CONT "$(pid_of run 1)"; kill -TERM $launcher; kill -TERM $launcher' EXIT # timeout passes it on
rows() { wc -l <run/metrics.jsonl; }
more() { [ "$(rows)" -gt $((before + 500)) ]; } # they are written by the hundred, and at a save
asked() { [ "$(grep -c 'as asked' err)" -ge "$1" ]; }
before=-500
await 300 more
kill -USR2 "$(pid_of run 0)"
await 300 stands run 1
for rank in 1 2; do kill -USR2 "$(pid_of run $rank)"; done
kill -CONT "$(pid_of run 1)"
await 300 asked 1
before=$(rows)
await 300 more
! asked 2 || { echo "saved twice for one request"; cat err; exit 1; }
kill -USR2 "$(pid_of run 2)"
await 300 asked 2
trap - EXIT
kill -TERM $launcher
wait $launcher
[ $? = 143 ] || { echo "it did not stop"; cat err; exit 1; }
nobody_left run
