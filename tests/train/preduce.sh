# Replicas that average with those that a rule chooses: full groups at every step are all-reduce up to rounding; in virtual time a run repeats
# to the bit, and goes on to the same bits after a kill anywhere; rows count what each replica has done; what is refused.
. "$ROOT/tests/train/lib.sh"
common="--model resnet8 --data synthetic:size=8,count=96,test_count=24 --batch 24 --threads 1 --quiet"
virtual="--clock virtual --hetero base=40ms,slow=0:3"
# train NAME OPTION...: into that folder
train() {
    name=$1
    shift
    rm -rf "$name"
    # shellcheck disable=SC2086
    "$STRETTO" train $common --out "$name" "$@"
}
same() {
    for what in param_hash buffer_hash loss_last; do
        a=$(key "$1/summary.json" $what) b=$(key "$2/summary.json" $what)
        [ -n "$a" ] && [ "$a" = "$b" ] || { echo "$1 and $2: $what $a and $b"; exit 1; }
    done
}
# near A B: the largest difference of two models is rounding
near() {
    "$STRETTO" compare "$1" "$2" --json >out 2>&1
    largest=$(grep -o '"max_abs": *[0-9.e+-]*' out | head -1 | sed 's/.*: *//')
    echo "$1 and $2 differ by $largest"
    awk -v have="$largest" 'BEGIN { exit !(have != "" && have + 0 < 2e-5) }' || { cat out; exit 1; }
}
# Full groups at every step: sgd and momentum are linear in the gradient. mlp has no running statistics, whose mean all-reduce does not take.
for optimizer in "--momentum 0" "--momentum 0.9"; do
    for way in "-n 3" "-n 4 --stages 2 --replicas 2 --schedule 1f1b --micro-batches 2"; do
        # shellcheck disable=SC2086
        train all --model mlp --steps 12 --strategy ddp --spawn threads --weight-decay 0 $optimizer $way || exit 1
        for group in "--group window" "$virtual"; do
            # shellcheck disable=SC2086
            train full --model mlp --steps 12 --strategy preduce --weight-decay 0 $optimizer $way --group-connect 1 $group || exit 1
            near all full
        done
    done
done
# Virtual time repeats, and goes on after a kill, for each rule; a slow replica does fewer mini-batches.
for how in "-n 4 --group window" "-n 4 --group fifo --group-size 3 --group-weights age=0.8" \
    "-n 4 --schedule 1f1b --stages 2 --replicas 2 --micro-batches 2 --group-by stage" "-n 4 --schedule 1f1b --stages 2 --replicas 2 --micro-batches 2 --optimizer adam"; do
    # shellcheck disable=SC2086
    set -- $how --steps 18 --strategy preduce --eval-every 6 --save-every 6 $virtual
    train once "$@" || exit 1
    train twice "$@" || exit 1
    same once twice
    numbers=$(grep '"kind":"train"' once/metrics.jsonl | tail -1)
    least=$(echo "$numbers" | sed 's/.*"least":\([0-9]*\).*/\1/') most=$(echo "$numbers" | sed 's/.*"most":\([0-9]*\).*/\1/')
    [ "$least" -lt "$most" ] || { echo "$how: the slow replica did $least of $most"; exit 1; }
    phases=STEP
    [ "$how" = "-n 4 --group window" ] && phases="F GROUP STEP AVERAGE SAVE"
    for at in $phases; do
        rm -rf killed
        step=8
        [ "$at" = SAVE ] && step=12
        STRETTO_FAULT="rank=1,step=$step,at=$at,do=kill" train killed "$@" >out 2>&1
        [ -d killed/checkpoints/step-00000006 ] || { echo "killed at $at: no checkpoint"; cat out; exit 1; }
        [ -f killed/summary.json ] && grep -q '"exit": 0' killed/summary.json && { echo "not killed at $at"; exit 1; }
        "$STRETTO" train --resume --quiet --out killed >out 2>&1 || { echo "$how, killed at $at"; cat out; exit 1; }
        same once killed
    done
done
# On the wall clock, with threads, also where a replica is slow; all end as the mean.
train wall -n 4 --steps 18 --strategy preduce --eval-every 6 --save-every 6 --keep 9 --hetero base=1ms,slow=0:3 || exit 1
for step in 6 18; do
    told=$(grep '"kind":"eval"' wall/metrics.jsonl | sed -n "s/.*\"step\":$step,.*\"loss\":\([0-9.]*\).*/\1/p")
    "$STRETTO" eval wall/checkpoints/step-000000"$(printf %02d $step)" --json >out 2>&1 || { cat out; exit 1; }
    grep -q "\"loss\": *$(echo "$told" | cut -c1-10)" out || { echo "step $step: $told told"; cat out; exit 1; }
done
# Another number of replicas begins with the mean, and another strategy too.
cp -r wall fewer
"$STRETTO" train --resume --out fewer -n 2 --steps 22 >out 2>&1 || { cat out; exit 1; }
grep -q 'has 4 replicas that trained apart, this run has 2: all begin with the saved model, the mean' out || { echo "the mean is not told"; cat out; exit 1; }
cp -r wall other
"$STRETTO" train --resume --quiet --out other --strategy ddp -n 4 --steps 22 >out 2>&1 || { cat out; exit 1; }
"$STRETTO" train --resume --quiet --out other --strategy preduce -n 4 --steps 26 >out 2>&1 || { echo "back again"; cat out; exit 1; }
# refused WORDS OPTION...: exit 2, with these words, and nothing is written
refused() {
    words=$1
    shift
    rm -rf refused
    # shellcheck disable=SC2086
    "$STRETTO" train $common --steps 4 --out refused "$@" >out 2>&1
    [ $? = 2 ] || { echo "taken: $*"; cat out; exit 1; }
    grep -q -e "$words" out || { echo "$*: not \"$words\" but"; cat out; exit 1; }
    [ ! -d refused ] || { echo "$*: a folder"; exit 1; }
}
p="-n 4 --strategy preduce"
# shellcheck disable=SC2086
{
    refused 'hold everything whole' $p --zero-stage 1
    refused 'do not meet inside a pass' $p --sync-bn
    refused 'each on ranks of its own' --deal 4x1 --strategy preduce
    refused 'has no effect with --group fifo' $p --group fifo --group-wait 2ms
    refused 'has no effect with --group window' $p --group-size 3
    refused 'has no effect with --group window' $p --group-weights age
    refused 'has no effect with --sync allreduce' -n 4 --strategy ddp --group fifo
    refused 'has no effect with --sync preduce' $p --sync-every 4
    refused '1 groups of 2 connect 4\|3 groups of 2 connect 4' $p --group fifo --group-connect 2
    refused 'a group has 2 to 4 members' $p --group fifo --group-size 5
    refused '"maybe" is not understood' $p --group-wait maybe
    refused 'not between the least' $p --group-wait 1s
    refused 'expected equal, age' $p --group fifo --group-weights young
    refused 'several stages on each rank' $p --stages 2 --schedule interleaved --micro-batches 2 --group-by stage
    refused 'never flushed, and replicas average behind a whole step' $p --stages 2 --schedule pipedream
    refused 'knows its own loss alone' $p --lr-policy range --lr 1 --lr-min 1e-4
    refused 'in memory that they share' -n 4 --strategy ddp --sync preduce
    refused 'leave this option out' $p --spawn processes
}
"$STRETTO" train --resume --quiet --out wall --steps 20 --group fifo >out 2>&1
[ $? = 2 ] || { echo "another rule at --resume"; cat out; exit 1; }
# Programs of one kind are not run with the options of another.
for strategy in ddp diloco preduce; do
    # shellcheck disable=SC2086
    "$STRETTO" explain $common -n 4 --strategy $strategy --save-program $strategy.txt >out 2>&1 || { cat out; exit 1; }
done
refused 'replicas average with those that are chosen, this run is with --sync allreduce' -n 4 --strategy ddp --program preduce.txt
refused 'replicas average with those that are chosen, this run is with --sync local' -n 4 --strategy diloco --program preduce.txt
refused 'replicas average every so many steps, this run is with --sync allreduce' -n 4 --strategy ddp --program diloco.txt
refused 'every 16 steps, this run is with --sync-every 4' -n 4 --strategy diloco --sync-every 4 --program diloco.txt
refused 'replicas have the same parameters, this run is with --sync preduce' -n 4 --strategy preduce --program ddp.txt
train given -n 4 --strategy preduce --program preduce.txt --steps 4 || exit 1
# A run that is stopped when its time is up: replicas are at steps of their own, and all come to one pause.
# shellcheck disable=SC2086
"$STRETTO" train $common --out stopped -n 4 --strategy preduce --hetero base=1ms,slow=0:3 --steps 1000000 --save-every 1000000 --eval-every never --time-limit 2s >out 2>&1
[ $? = 142 ] || { echo "not stopped by its time"; cat out; exit 1; }
done=$(key stopped/summary.json steps)
"$STRETTO" train --resume --quiet --out stopped --steps $((done + 2)) >out 2>&1 || { echo "no resume behind $done steps"; cat out; exit 1; }
