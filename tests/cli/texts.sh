# What messages say of the cause: the right one, of several that look alike from afar.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --quiet"
# never WORDS: the last answer does not have them.
never() { grep -qF -- "$1" err && say "'$1' in: $(cat err)"; }

# A folder without a model: of a run that is under way, of one that ended.
# shellcheck disable=SC2086
"$STRETTO" train $mlp --steps 5 --delay f=100s --out under >/dev/null 2>&1 &
run=$!
until [ -s under/config.yml ] && [ -s under/.stretto-lock ]; do
    kill -0 $run 2>/dev/null || { say "the run under way ended"; break; }
    sleep 0.1
done
answers 3 "no model.safetensors in this folder yet: the run is under way" eval under
never "ended"
answers 3 "--save-every N saves on the way" eval under
kill -KILL $run 2>/dev/null
wait $run 2>/dev/null
answers 3 "the run ended before it saved one" eval under

# Options that were left open, where a checkpoint has another value.
# shellcheck disable=SC2086
ends 0 train $mlp --steps 2 --save-every 1 --out open
answers 2 "dropout was the model's, this run has 0.5" train --out open --resume --steps 3 --dropout 0.5 --quiet
answers 2 "delay was not given, this run has f=1ms" train --out open --resume --steps 3 --delay f=1ms --quiet

# Weights that are no weights.
echo 'a,b,c,d,e,f' >d.csv
answers 3 "d.csv: not a safetensors file: it begins with the text 'a,b,c,d,'" train $mlp --steps 1 --weights d.csv --out w
never "header length"
printf '\377\376\375\374\373\372\371\370 and more' >d.bin
answers 3 "d.bin: not a safetensors file: its first 8 bytes would be a header of" train $mlp --steps 1 --weights d.bin --out w
never "truncated"

# Arrays: too long, too short, of numbers that f32 does not have, of another size than the model's.
# npy FILE DESCR SHAPE: the header; the values come from standard input.
npy() {
    { printf '\223NUMPY\001\000\166\000'; printf "%-117s\n" "{'descr': '$2', 'fortran_order': False, 'shape': ($3,), }"; cat; } >"$1"
}
mkdir -p a
zeros() { head -c "$1" /dev/zero; }
{ zeros 120; printf "\001"; zeros 7; } | npy a/y_train.npy '<i8' 16
zeros 260 | npy a/x_train.npy '<f4' 16,4
answers 3 "[16,4] of f4 is 256 bytes, but 260 bytes follow the header" explain --model mlp --data npy:a
answers 3 "something was appended" explain --model mlp --data npy:a
never "truncated"
zeros 252 | npy a/x_train.npy '<f4' 16,4
answers 3 "is it truncated?" explain --model mlp --data npy:a
{ zeros 24; printf '\234\165\000\210\074\344\067\176'; zeros 480; } | npy a/x_train.npy '<f8' 16,4 # 1e300
answers 3 "element 3 is 1e+300, beyond the range of f32" explain --model mlp --data npy:a
never "inf"
zeros 4096 | npy a/x_train.npy '<f4' 16,8,8
# shellcheck disable=SC2086
ends 0 train $mlp --data npy:a --steps 1 --out seen
mkdir b
cp a/y_train.npy b
zeros 6400 | npy b/x_train.npy '<f4' 16,10,10
answers 2 "b/x_train.npy holds images of reals of 10x10, the model was trained on images of 8x8" eval seen --data npy:b
never "image-size"
zeros 320 | npy b/x_train.npy '<f4' 16,5
answers 2 "b/x_train.npy holds rows of 5 numbers, the model was trained on images of 8x8" eval seen --data npy:b
never "image-size"
answers 2 "--image-size: a/x_train.npy holds images of reals" eval seen --data npy:a --image-size 12

# A rank is lost: what can be resumed from.
STRETTO_FAULT=rank=1,at=F,step=2,do=kill "$STRETTO" train $mlp -n 2 --steps 6 --eval-every never --save-every never --out lost >out 2>err
[ $? = 4 ] || say "a lost rank: $(cat err)"
never "--resume continues"
grep -q 'it has no checkpoint to resume from: --save-every N' err || say "without a checkpoint: $(cat err)"
STRETTO_FAULT=rank=1,at=F,step=4,do=kill "$STRETTO" train $mlp -n 2 --steps 6 --save-every 1 --out lost --overwrite >out 2>err
[ $? = 4 ] || say "a lost rank: $(cat err)"
grep -q -e '--resume continues from the newest checkpoint' err || say "with a checkpoint: $(cat err)"
STRETTO_FAULT=rank=1,at=F,step=5,do=kill "$STRETTO" train --resume -n 2 --save-every never --out lost --quiet >out 2>err
grep -q -e '--resume continues from the newest checkpoint' err || say "resumed from one: $(cat err)"

# The accuracy of a step's line is the last evaluation's.
"$STRETTO" train --model mlp --device ref --threads 1 --steps 40 --eval-every 10 --log-every 10 --out steps >out 2>err || say "train: $(cat err)"
cat out err | grep '^step .* samples/s ' | tail -n 1 | grep -q 'last eval acc1 [0-9.]*%' || say "the line of a step: $(cat out err | grep '^step')"
cat out err | grep '^step' | grep -q '/s  acc1' && say "a step's line reads like training's accuracy"
exit $failed
