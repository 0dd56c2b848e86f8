# Standard output that nobody reads: training goes on beyond what the pipe holds, signals work, and the run says at its end
# what was not shown. With ranks as processes, as threads, and with one rank; on a pipe for each stream and on one for both.
. "$ROOT/tests/ranks/lib.sh"
mlp="--model mlp --threads 1 --batch 24 --log-every 1 --json --eval-every never --save-every never"
mkfifo pipe
exec 3<>pipe # open for reading, and never read
has_rows() { [ "$(wc -l <run/metrics.jsonl)" -ge "$1" ]; }
# unread FILE OPTION...: standard error goes to FILE
unread() {
    error=$1
    shift
    rm -rf run
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp "$@" --steps 100000000 --out run >pipe 2>"$error" &
    run=$!
    await 3000 has_rows 10000 # some two megabytes: more than the pipe and what is kept
    kill -TERM $run
    wait $run
    code=$?
    [ $code = 143 ] || { echo "$*, 2>$error: exit code $code, not 143"; exit 1; }
    ls run/checkpoints/step-* >/dev/null || exit 1
    [ "$error" = pipe ] || says "$error" 'standard output: not shown, since nothing read it: [0-9]* lines'
}
unread err -n 1
unread pipe -n 1
unread pipe -n 2 --spawn threads
unread pipe -n 2
unread err -n 2
says run/rank-0.log '"step":10000,'
# A reader that comes late gets whole lines, the last one too while they fit.
exec 3<&-
rm -rf run
# shellcheck disable=SC2086
("$STRETTO" train $mlp -n 2 --steps 2000 --out run 2>err; echo $? >code) | (await 3000 has_rows 1000; cat) >late
[ "$(cat code)" = 0 ] || { cat err; exit 1; }
[ "$(grep -c '^{"kind":".*}$' late)" = 2001 ] && [ "$(wc -l <late)" = 2001 ] || { wc late; tail -n 2 late; exit 1; }
tail -n 1 late | grep -q '"kind":"end"' || { tail -n 1 late; exit 1; }
