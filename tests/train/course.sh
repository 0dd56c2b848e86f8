# A run in which more is frozen from period to period: bits do not depend on the strategy, nor on how ranks are started, nor on where
# the run is killed, stopped or resumed; its parts are written down; memory is predicted; what cannot be is refused.
. "$ROOT/tests/train/lib.sh"
# Three blocks, five steps an epoch of which the last is short; parts begin behind steps 3, 6 and 9: in the middle of epochs.
common="--model resnet8 --data synthetic:size=8,count=50,test_count=8 --batch 12 --epochs 3 --threads 1 --lr-policy const --warmup 0"
course="--freeze alpha=1/3 --freeze-every 3"
# train NAME OPTION...
train() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $common $course --quiet --out "$name" "$@"
}
same() {
    for what in param_hash buffer_hash; do
        a=$(key "$1/summary.json" $what) b=$(key "$2/summary.json" $what)
        [ -n "$a" ] && [ "$a" = "$b" ] || { echo "$1 and $2: $what $a and $b"; exit 1; }
    done
    cut -d, -f1-3 "$1/course.jsonl" >parts
    cut -d, -f1-3 "$2/course.jsonl" | cmp - parts || { echo "$1 and $2: other courses"; exit 1; }
}
train one --deal 2x2 --micro-batches 2 || exit 1
[ "$(sed 's/.*"step":\([0-9]*\),"frozen":\([0-9]*\),"of":3.*/\1 \2/' one/course.jsonl | paste -s -d, -)" = "0 0,3 1,6 2,9 3" ] ||
    { cat one/course.jsonl; exit 1; }
# As one device, whatever lays the ranks out.
set -- "--strategy ddp -n 2 --micro-batches 2" "--strategy ddp -n 2 --micro-batches 2 --spawn threads" \
    "--strategy gpipe -n 4 --stages 2 --replicas 2 --micro-batches 2" "--strategy 1f1b -n 4 --stages 2 --replicas 2 --micro-batches 2 --spawn threads" \
    "--strategy zero1 -n 2 --micro-batches 2" "--strategy zero2 -n 2 --micro-batches 2 --recompute always:block" \
    "--strategy zbv -n 4 --stages 2 --replicas 2 --micro-batches 2 --virtual 2"
for how; do
    tag=$(echo "$how" | tr -dc 'a-z0-9')
    # shellcheck disable=SC2086
    train "$tag" $how || { echo "$how"; exit 1; }
    same one "$tag"
done
# More is frozen, and no more than that: another course ends elsewhere.
course="--freeze 0,1 --freeze-every 3"
train other --deal 2x2 --micro-batches 2 || exit 1
[ "$(key one/summary.json param_hash)" != "$(key other/summary.json param_hash)" ] || { echo "two courses are one"; exit 1; }
course="--freeze alpha=1/3 --freeze-every 3"
# Killed in each phase, beside a change of the plan and in it; then resumed, on the same ranks and on one.
pipes="--strategy gpipe -n 4 --stages 2 --replicas 2 --micro-batches 2"
for at in F STEP SAVE; do
    for step in 3 4 6 7; do
        rm -rf killed
        # shellcheck disable=SC2086
        STRETTO_FAULT="rank=1,step=$step,at=$at,do=kill" train killed $pipes --save-every 1 >out 2>&1 && { echo "not killed at $at $step"; exit 1; }
        cp -r killed single
        "$STRETTO" train --resume --quiet --out killed >out 2>&1 || { echo "killed at $at of step $step"; cat out; exit 1; }
        same one killed
        "$STRETTO" train --resume --quiet --out single --strategy single --stages 1 -n 1 --deal 2x2 >out 2>&1 || { echo "on one device"; cat out; exit 1; }
        same one single
        rm -rf single
    done
done
# Stopped behind every step, each time with another checkpoint, also one that a change of the plan follows at once.
rm -rf part
for steps in 2 3 4 6 9 10 15; do
    # shellcheck disable=SC2086
    if [ -d part ]; then
        "$STRETTO" explain --resume --out part --steps $steps >out 2>&1 || { echo "explain up to $steps"; cat out; exit 1; }
        "$STRETTO" train --resume --quiet --out part --steps $steps || { echo "to step $steps"; exit 1; }
    else
        train part $pipes --steps $steps || exit 1
    fi
done
same one part
# Another course is not the run's.
"$STRETTO" train --resume --quiet --out part --freeze 0,1 --steps 20 >out 2>&1
[ $? = 2 ] && grep -q freeze out || { echo "another course is taken"; cat out; exit 1; }
# A change is told, with what it leaves to train.
"$STRETTO" train $common $course --deal 2x2 --micro-batches 2 --out told >out 2>&1 || { cat out; exit 1; }
grep -q 'step 4: the first 1 of 3 blocks are frozen from here on; 72,906 of 78,042 parameters are trained$' out && grep -q 'a step should take .*, not .*; .* moved in' out || { cat out; exit 1; }
grep -q '"trained' told/course.jsonl && exit 1
# explain tells the parts before, and what other shares would take.
# shellcheck disable=SC2086
"$STRETTO" explain $common $course >out 2>&1 || { cat out; exit 1; }
for row in 'course  *more blocks are frozen after every 3 steps, up to 3 of 3' ' 1  *0  *78,042 ' ' 4  *1  *72,906 ' ' 10  *3  *650 ' 'by alpha: 1/5 ' '1/2 ' 'transition'; do
    grep -q -- "$row" out || { echo "explain has no row $row"; cat out; exit 1; }
done
# Peaks are at most what was predicted.
if [ -z "$SAN" ]; then
    for run in one "$(echo "$pipes" | tr -dc 'a-z0-9')"; do
        python3 - "$run" <<'END' || exit 1
import json, sys
told = json.load(open(sys.argv[1] + "/summary.json"))
for have, want in zip(told["peak_bytes"], told["predicted_peak_bytes"]):
    assert have <= want + (512 << 10), (sys.argv[1], have, want)
END
    done
fi
# refused WHAT OPTION...
refused() {
    what=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $common --quiet --out refused "$@" >out 2>&1
    code=$?
    [ $code = 2 ] && grep -q -e "$what" out && [ "$(wc -l <out)" -le 3 ] || { echo "$*: exit code $code"; cat out; exit 1; }
}
refused 'freeze 9 in period 2: model resnet8 has 3 blocks' --freeze 0,9
refused '2 comes after 3' --freeze 3,2
refused 'with --freeze-every never' --freeze 0,1 --freeze-every never
refused '--freeze-every has no effect: nothing is frozen' --freeze-every 2
refused '--freeze-every has no effect: --freeze names one number' --freeze 2 --freeze-every 2
refused 'with --strategy auto' --freeze 0,1 --strategy auto -n 2 --stages 2
refused 'with --zero-stage 3' --freeze alpha=1/3 --strategy zero3 -n 2
refused 'alpha' --freeze alpha=3/2
[ ! -e refused ] || { echo "a refused run left something"; exit 1; }
