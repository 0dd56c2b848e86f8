# --resume from another folder: config.yml keeps files by paths from the root. And what --resume cannot obey is refused, or told;
# nothing that is named has no effect in silence.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 8 --eval-every never --save-every 1 --quiet"
header() { # FILE TYPE SHAPE BYTES
    printf '\223NUMPY\001\000\166\000' >"$1"
    printf "%-117s\n" "{'descr': '$2', 'fortran_order': False, 'shape': $3, }" >>"$1"
    head -c "$4" /dev/zero >>"$1"
}
mkdir -p here/arrays there
header here/arrays/x_train.npy '<f4' '(32, 1, 8, 8)' 8192
header here/arrays/y_train.npy '<i8' '(32,)' 256
header here/rows.npy '<f4' '(3, 1, 8, 8)' 768
# train_here NAME OPTION...; go_on NAME STEPS OPTION...: in another folder
train_here() {
    name=$1
    shift
    # shellcheck disable=SC2086
    (cd here && "$STRETTO" train $mlp --out "$name" "$@") 2>err || say "$name: exit $?: $(cat err)"
}
go_on() {
    name=$1 steps=$2
    shift 2
    (cd there && "$STRETTO" train --resume --out "../here/$name" --quiet --steps "$steps" "$@") 2>err || say "$name goes on: exit $?: $(cat err)"
    grep -q "\"steps\": $steps," "here/$name/summary.json" || say "$name: not at step $steps"
}
kept() { grep -qxF "$2" "here/$1/config.yml" || say "$1/config.yml has no '$2': $(grep "${2%%:*}" "here/$1/config.yml")"; }

train_here base --steps 1 --data npy:arrays,classes=10
(cd here && "$STRETTO" explain --model mlp --device ref --threads 1 --batch 8 --deal 1x2 --quiet --save-program program.txt) || say "no program"
train_here whole --steps 2 --data npy:arrays,classes=10 --weights base/model.safetensors --program program.txt --deal 1x2
kept whole "data: npy:$PWD/here/arrays,classes=10"
kept whole "weights: $PWD/here/base/model.safetensors"
kept whole "program: $PWD/here/program.txt"
go_on whole 3
kept whole "weights: $PWD/here/base/model.safetensors"
(cd there && "$STRETTO" eval ../here/whole --threads 1 --quiet && "$STRETTO" predict ../here/whole --input ../here/rows.npy --output rows.jsonl --threads 1 --quiet) 2>err ||
    say "eval and predict from another folder: $(cat err)"
[ "$(wc -l <there/rows.jsonl)" = 3 ] || say "predict from another folder"
# A list of files, of a schedule that depends on times.
train_here timed --steps 8 --micro-batches 2 --strategy 1f1b -n 2 --save-profile profile.json --save-every never
cp here/profile.json here/again.json
train_here pipe --steps 1 --micro-batches 2 --strategy 1f1b -n 2 --balance time --profile profile.json,./again.json
kept pipe "profile: $PWD/here/profile.json,$PWD/here/again.json"
go_on pipe 2
# Nothing has changed for what is no file, nor for the files of the job that is over.
kept pipe "data: digits"

# A folder that an older version wrote: relative paths count from where the command is given.
cp -r here/whole here/older
sed -i "s|$PWD/here/||" here/older/config.yml
grep -q 'npy:arrays' here/older/config.yml || say "the paths are not relative: $(cat here/older/config.yml)"
(cd here && "$STRETTO" train --resume --out older --steps 4 --quiet) 2>err || say "relative paths: $(cat err)"
kept older "data: npy:$PWD/here/arrays,classes=10"

# --weights with --resume: those that the run began with, or none. So a command may be repeated as it was.
cp -r here/base here/other
cd here || exit 1
before=$(cksum whole/config.yml whole/model.safetensors)
for command in train explain simulate; do
    answers 2 '--weights other has no effect with --resume' $command --resume --out whole --steps 5 --weights other
    answers 2 '--weights other has no effect with --resume' $command --resume --out base --steps 5 --weights other
done
echo "weights: other/model.safetensors" >other.yml
answers 2 'other/model.safetensors has no effect with --resume' train --resume --out whole --steps 5 --config other.yml
answers 2 'other/model.safetensors has no effect with --resume' train -n 2 --resume --out whole --steps 5 --config other.yml
[ "$(cksum whole/config.yml whole/model.safetensors)" = "$before" ] || say "a refused resume changed the run"
ln -s base alias
answers 0 '' train --resume --out whole --steps 5 --weights alias/model.safetensors
grep -q 'tensors loaded' err && say "weights are read where a checkpoint has its own: $(cat err)"
mv base gone
answers 0 '' train --resume --out whole --steps 6
# Where no checkpoint is there yet, they are what the run begins with.
mv gone base
rm -r whole/checkpoints whole/summary.json
answers 0 'tensors loaded' train --resume --out whole --steps 1
mv base gone
rm -r whole/checkpoints whole/summary.json
answers 3 'alias/model.safetensors' train --resume --out whole --steps 1
mv gone base
# shellcheck disable=SC2086
STRETTO_FAULT=rank=1,at=STEP,step=3,do=kill answers 0 'all ranks start again' train $mlp -n 2 --data npy:arrays,classes=10 --steps 4 --weights base --restarts 1 --out again

# A DeepSpeed file counts as what is named now; the command line wins over it.
# shellcheck disable=SC2086
answers 0 '' train $mlp --data npy:arrays,classes=10 --steps 1 --lr 0.1 --out ds
echo '{"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.5}}}' >ds.json
answers 0 'lr was 0.1 when the checkpoint was made, it is 0.5 now' train --resume --out ds --steps 2 --deepspeed ds.json
grep -qx 'lr: 0.5' ds/config.yml || say "the rate of the DeepSpeed file: $(grep '^lr:' ds/config.yml)"
answers 0 'it is 0.25 now' train --resume --out ds --steps 3 --deepspeed ds.json --lr 0.25
echo '{"train_batch_size": 16}' >ds.json
answers 2 'batch was 8' train --resume --out ds --steps 4 --deepspeed ds.json

# Steps that are done are not traced, nor timed.
answers 0 '--trace 1-2 has no effect: the run is at step 3 already' train --resume --out ds --steps 4 --trace 1-2
answers 0 '--save-profile p.json is not written' train --resume --out ds --save-profile p.json
exit $failed
