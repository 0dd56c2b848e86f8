# Ranks as threads: a wait that lasts is explained, SIGUSR1 says where all are, and the trace has every rank, as with processes.
. "$ROOT/tests/ranks/lib.sh"
ranks_of() { sed -n 's/.*"ph":"X".*"pid":\([0-9]*\).*/\1/p' "$1/trace.json" | sort -u | tr '\n' ' '; }
STRETTO_FAULT=rank=1,step=7,at=B,do=pause "$STRETTO" train -n 3 --spawn threads $small --quiet --stall-after 0.5 --out run >out 2>err &
pid=$!
await 300 grep -q 'waits .* for' err
says err 'rank [02] waits .* for rank 1 at step 7 .*; rank 1 is at step 7 #[0-9]* r1 B .* for '
kill -USR1 $pid
wait $pid || { cat err; exit 1; }
for rank in 0 1 2; do says err "rank $rank is at step 7 #[0-9]* r$rank"; done
[ "$(ranks_of run)" = '0 1 2 ' ] || { echo "threads: the trace has ranks $(ranks_of run)"; exit 1; }
train -n 3 $small --quiet --out processes || exit 1
[ "$(ranks_of processes)" = '0 1 2 ' ] || { echo "processes: the trace has ranks $(ranks_of processes)"; exit 1; }
