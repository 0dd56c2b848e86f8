# A signal that is ignored when a run starts stays ignored, whatever its ranks are: a script's background jobs do not end
# when the script is interrupted. SIGTERM still stops them.
. "$ROOT/tests/ranks/lib.sh"
for how in "-n 1" "-n 2" "-n 2 --spawn threads"; do
    rm -rf run out
    # shellcheck disable=SC2086
    env --ignore-signal=INT "$STRETTO" train $how --model mlp --threads 1 --steps 100000000 --eval-every never --out run >out 2>err &
    run=$!
    await 600 grep -q '^step' out
    kill -INT $run
    kill -TERM $run
    wait $run
    code=$?
    [ $code = 143 ] || { echo "$how: exit code $code, not 143"; cat err; exit 1; }
    says err 'stopped by SIGTERM after step .*, saved' # where SIGINT counts, SIGTERM is the second signal and saves nothing
done
