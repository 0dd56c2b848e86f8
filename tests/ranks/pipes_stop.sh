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
# both stages, one after the other: the one that has it in a parameter names that; the other says how to look for it
for rank in 0 1; do
    STRETTO_FAULT=rank=$rank,step=7,at=F,do=nan code 6 train $small $pipe --out nan$rank
    says nan$rank/rank-$rank.log 'step 7: the loss is nan: parameter .* is not finite'
    says nan$rank/rank-$((1 - rank)).log 'step 7: the loss is nan: parameters of this rank are finite, the gradient of .* is not'
    says nan$rank/rank-$((1 - rank)).log '--resume with --strategy single --stages 1 -n 1 --deal 1x4'
    says err 'rank [01] ended: exit code 6'
    says nan$rank/summary.json '"exit": 6'
    [ ! -e nan$rank/model.safetensors ] || { echo "a model was written all the same"; exit 1; }
    nobody_left nan$rank
done
whole undisturbed $small $pipe
code 0 train $small $pipe --out nan0 --resume
ends_as nan0 "$want"
# what one device finds there is the tensor: here of a learning rate that is too high, in step 2
code 6 train --model mlp --threads 1 --batch 24 --steps 20 --save-every 1 --lr 1e30 --warmup 0 $pipe --out high --quiet
says err 'step 2: the loss is'
code 6 train --out high --resume --strategy single --stages 1 -n 1 --deal 1x4 --quiet
says err 'step 2: the loss is .*: first not finite is tensor '
