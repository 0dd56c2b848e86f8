# SIGTERM: all stages of a pipeline stop after the same step and save, and the run goes on from there. A number that is not finite in
# one stage stops all of them with 6.
. "$ROOT/tests/ranks/lib.sh"
pipe="--strategy zb-h1 --stages 2 --micro-batches 4"
"$STRETTO" train --model mlp --threads 1 --batch 24 --steps 100000000 --eval-every never $pipe --out run >out 2>err &
run=$!
await 600 grep -qs '^step' run/rank-0.log
kill -TERM $run
wait $run
code=$?
[ $code = 143 ] || { echo "exit code $code, not 143"; cat out err; exit 1; }
says err 'SIGTERM: ranks stop after this step, then save (again: they are killed)'
says err 'stopped by SIGTERM'
nobody_left run
step=$(ls run/checkpoints | sed -n 's/^step-0*//p' | sort -n | tail -n 1)
[ -n "$step" ] || { echo "nothing saved"; ls run/checkpoints; exit 1; }
code 0 train --out run --resume --steps $((step + 2)) --quiet
# both stages, one after the other
for rank in 0 1; do
    STRETTO_FAULT=rank=$rank,step=7,at=F,do=nan code 6 train $small $pipe --out nan$rank
    says nan$rank/rank-$rank.log 'step 7: .* is not finite'
    says err "rank [01] ended: exit code 6"
    says nan$rank/summary.json '"exit": 6'
    [ ! -e nan$rank/model.safetensors ] || { echo "a model was written all the same"; exit 1; }
    nobody_left nan$rank
done
whole undisturbed $small $pipe
code 0 train $small $pipe --out nan0 --resume
ends_as nan0 "$want"
