# Replicas that train apart: bits do not depend on the clock, on how ranks are started, nor on where the run evaluates and saves; a
# run that was killed or stopped anywhere goes on to the same bits; what is evaluated and saved is the mean; what is refused.
. "$ROOT/tests/train/lib.sh"
common="--model resnet8 --data synthetic:size=8,count=96,test_count=24 --batch 24 --steps 22 --threads 1 --quiet --strategy diloco --sync-every 4"
# train NAME OPTION...: 22 steps into that folder
train() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $common --out "$name" "$@"
}
# same A B: equal parameters, running statistics and losses
same() {
    for what in param_hash buffer_hash loss_last; do
        a=$(key "$1/summary.json" $what) b=$(key "$2/summary.json" $what)
        [ -n "$a" ] && [ "$a" = "$b" ] || { echo "$1 and $2: $what $a and $b"; exit 1; }
    done
}
for how in "-n 3" "--schedule 1f1b --stages 2 --replicas 2 --micro-batches 2 --outer-optimizer sgd --outer-lr 1" "-n 2 --optimizer adam"; do
    tag=$(echo "$how" | tr -dc 'a-z0-9')
    # shellcheck disable=SC2086
    set -- $how
    train "$tag" "$@" --eval-every never --save-every never || exit 1
    train "$tag-threads" "$@" --eval-every 7 --save-every 5 --spawn threads || exit 1
    train "$tag-virtual" "$@" --eval-every 4 --save-every never --clock virtual --hetero base=1ms,slow=0:2,transient=0.3:500us || exit 1
    for other in threads virtual; do same "$tag" "$tag-$other"; done
    # Killed in each phase, between averages and at one; then resumed.
    phases="STEP REDUCE"
    [ "$tag" = n3 ] && phases="F B STEP REPORT DELTA REDUCE OUTER SAVE"
    for at in $phases; do
        rm -rf killed
        STRETTO_FAULT="rank=1,step=12,at=$at,do=kill" train killed "$@" --eval-every never --save-every 3 >out 2>&1 && { echo "not killed at $at"; exit 1; }
        [ -d killed/checkpoints/step-00000009 ] || { echo "killed at $at: no checkpoint"; cat out; exit 1; }
        grep -q 'rank 1' out || { echo "killed at $at: not named"; cat out; exit 1; }
        "$STRETTO" train --resume --quiet --out killed >out 2>&1 || { echo "$how, killed at $at"; cat out; exit 1; }
        same "$tag" killed
    done
done
# What is evaluated is what is saved, also where no average was just made.
train saved -n 3 --eval-every 6 --save-every 6 --keep 9 || exit 1
for step in 6 18; do
    told=$(grep '"kind":"eval"' saved/metrics.jsonl | sed -n "s/.*\"step\":$step,.*\"loss\":\([0-9.]*\).*/\1/p")
    "$STRETTO" eval saved/checkpoints/step-000000"$(printf %02d $step)" --json >out 2>&1 || { cat out; exit 1; }
    grep -q "\"loss\": *$(echo "$told" | cut -c1-10)" out || { echo "step $step: $told told"; cat out; exit 1; }
done
[ -f saved/checkpoints/step-00000018/replicas-00003-of-00003.safetensors ] || { ls saved/checkpoints/step-00000018; exit 1; }
# Another number of replicas begins with the mean, and another strategy too.
cp -r saved fewer
"$STRETTO" train --resume --out fewer -n 2 --steps 26 >out 2>&1 || { cat out; exit 1; }
grep -q 'has 3 replicas that trained apart, this run has 2: all begin with the saved model, the mean' out || { echo "the mean is not told"; cat out; exit 1; }
cp -r saved other
"$STRETTO" train --resume --quiet --out other --strategy ddp -n 3 --steps 26 >out 2>&1 || { cat out; exit 1; }
"$STRETTO" train --resume --quiet --out other --strategy diloco -n 3 --steps 30 >out 2>&1 || { echo "back again"; cat out; exit 1; }
# A damaged file of one replica is a damaged checkpoint.
cp -r saved damaged
rm -rf damaged/checkpoints/step-00000022
printf x | dd of=damaged/checkpoints/step-00000018/replicas-00002-of-00003.safetensors bs=1 seek=4000 conv=notrunc 2>/dev/null
"$STRETTO" train --resume --quiet --out damaged >out 2>&1
grep -q 'step-00000018 is damaged and is passed over' out || { cat out; exit 1; }
same saved damaged
# A gradient that is not finite on one replica ends all, and is named.
STRETTO_FAULT="rank=1,step=6,at=F,do=nan" train bad -n 2 --eval-every never --save-every 2 >out 2>&1
code=$?
[ $code = 6 ] && grep -q 'step 6' out && [ -d bad/checkpoints/step-00000004 ] && [ ! -d bad/checkpoints/step-00000006 ] || { echo "not finite: exit code $code"; cat out; exit 1; }
# refused WHAT OPTION...
refused() {
    what=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train --model resnet8 --steps 4 --batch 24 --threads 1 --quiet --out refused "$@" >out 2>&1
    code=$?
    [ $code = 2 ] && grep -q -e "$what" out && [ "$(wc -l <out)" -le 3 ] || { echo "$*: exit code $code"; cat out; exit 1; }
}
refused '--strategy ddp --zero-stage 2' --strategy diloco -n 2 --zero-stage 2
refused 'train apart, each on ranks of its own' --strategy diloco --deal 2x1
refused '--sync-bn: with --sync local' --strategy diloco -n 2 --sync-bn
refused 'is never flushed' --strategy pipedream --stages 2 --replicas 2 --sync local
refused '--sync-every has no effect with --sync allreduce' --sync allreduce -n 2 --sync-every 4
# A run that knows nothing of averages stays what it is.
"$STRETTO" train --model mlp --strategy ddp -n 2 --steps 4 --threads 1 --quiet --out plain >out 2>&1 && "$STRETTO" train --resume --steps 6 --quiet --out plain >out 2>&1 || { cat out; exit 1; }
"$STRETTO" explain --resume --out plain --show program >out 2>&1 || { cat out; exit 1; }
grep -q "DELTA" out && { echo "a resumed run of ddp trains apart"; exit 1; }
refused '--outer-lr has no effect with --sync zero' --strategy zero1 -n 2 --outer-lr 1
refused '--outer-momentum has no effect' --strategy diloco -n 2 --outer-optimizer sgd --outer-momentum 0.5
"$STRETTO" check --model mlp --strategy diloco -n 2 --numeric >out 2>&1
[ $? = 2 ] && grep -q 'replicas of --sync local train apart' out || { cat out; exit 1; }
[ ! -e refused ] || { echo "a refused run left something"; exit 1; }
