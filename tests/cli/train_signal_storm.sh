# Signals may come at any moment of a step, also while a kernel keeps the stack register in memory of its own.
set -u
for round in 1 2 3; do
    "$STRETTO" train --model mlp --threads 1 --steps 100000000 --eval-every never --save-every never --out run$round >out$round 2>&1 &
    run=$!
    tries=0
    until grep -qs 'step 10' out$round; do
        sleep 0.05
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "no step is made"; cat out$round; kill -9 $run; exit 1; }
    done
    count=0
    while [ $count -lt 400 ]; do
        kill -USR2 $run && kill -USR1 $run || break
        count=$((count + 1))
    done
    kill -TERM $run
    wait $run
    code=$?
    [ $code = 143 ] || { echo "exit code $code, not 143"; tail -n 3 out$round; exit 1; }
done
