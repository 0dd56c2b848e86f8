# Blocks freeze by the norms of their gradients: the same course and bits on every grid, wherever the run is killed, stopped or
# resumed; a share is the cap; what cannot be is refused.
. "$ROOT/tests/train/lib.sh"
# Four blocks, five steps an epoch of which the last is short; periods end behind steps 3, 6, 9 and 12.
common="--model vit-micro --data synthetic:size=8,count=50,test_count=8 --batch 12 --epochs 3 --threads 1 --lr-policy const --warmup 0"
course="--freeze alpha=1/5,norm --freeze-every 3"
# train NAME OPTION...
train() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $common $course --quiet --out "$name" "$@" 2>out || { echo "$name: $*"; cat out; exit 1; }
}
parts() { sed 's/.*"step":\([0-9]*\),"frozen":\([0-9]*\),.*/\1 \2/' "$1/course.jsonl" | paste -s -d, -; }
same() {
    a=$(key "$1/summary.json" param_hash) b=$(key "$2/summary.json" param_hash)
    [ -n "$a" ] && [ "$a" = "$b" ] && [ "$(parts "$1")" = "$(parts "$2")" ] ||
        { echo "$1 and $2: param_hash $a and $b, courses $(parts "$1") and $(parts "$2")"; exit 1; }
}
train one --deal 2x2
# The cap of a fifth: 0, 1, 2, 2, 3. Norms would freeze more at once.
[ "$(parts one)" = "0 0,3 1,6 2,12 3" ] || { echo "a fifth at most: $(parts one)"; exit 1; }
course="--freeze norm --freeze-every 3"
train norm --deal 2x2
[ "$(parts norm)" = "0 0,3 2,9 3" ] || { echo "by norms alone: $(parts norm)"; exit 1; }
for how in "--strategy ddp -n 2 --micro-batches 2" "--strategy gpipe -n 4 --stages 2 --replicas 2 --micro-batches 2" \
    "--strategy zero1 -n 2 --micro-batches 2" "--strategy zbv -n 4 --stages 2 --replicas 2 --micro-batches 2 --virtual 2" \
    "--strategy 1f1b -n 4 --stages 2 --replicas 2 --micro-batches 2 --zero-stage 2 --spawn threads"; do
    tag=$(echo "$how" | tr -dc 'a-z0-9')
    # shellcheck disable=SC2086
    train "$tag" $how
    same norm "$tag"
done
# With --sum tree the grid does not matter at all.
train tree --deal 1x4 --sum tree
train tree22 --strategy gpipe -n 4 --stages 2 --replicas 2 --micro-batches 2 --sum tree
train tree41 --strategy ddp -n 4 --sum tree --spawn threads
same tree tree22
same tree tree41
# Killed in each phase, in the middle of a period, at its end and beside a change; resumed on the same ranks and on one.
pipes="--strategy gpipe -n 4 --stages 2 --replicas 2 --micro-batches 2"
for at in F STEP SAVE; do
    for step in 2 3 4 6; do
        rm -rf killed single
        # shellcheck disable=SC2086
        STRETTO_FAULT="rank=1,step=$step,at=$at,do=kill" "$STRETTO" train $common $course --quiet --out killed $pipes --save-every 1 >out 2>&1 &&
            { echo "not killed at $at $step"; exit 1; }
        cp -r killed single
        "$STRETTO" train --resume --quiet --out killed >out 2>&1 || { echo "killed at $at of step $step"; cat out; exit 1; }
        same norm killed
        "$STRETTO" train --resume --quiet --out single --strategy single --stages 1 -n 1 --deal 2x2 >out 2>&1 || { echo "on one device"; cat out; exit 1; }
        same norm single
    done
done
for rank in 0 3; do
    rm -rf killed
    # shellcheck disable=SC2086
    STRETTO_FAULT="rank=$rank,step=3,at=DECIDE,do=kill" "$STRETTO" train $common $course --quiet --out killed $pipes --save-every 1 >out 2>&1 && { echo "not killed as it decides"; exit 1; }
    "$STRETTO" train --resume --quiet --out killed >out 2>&1 || { echo "killed as it decides"; cat out; exit 1; }
    same norm killed
done
rm -rf part
for steps in 2 3 5 6 9 11 15; do
    # shellcheck disable=SC2086
    if [ -d part ]; then
        "$STRETTO" explain --resume --out part --steps $steps >out 2>&1 || { echo "explain up to $steps"; cat out; exit 1; }
        "$STRETTO" train --resume --quiet --out part --steps $steps || { echo "to step $steps"; exit 1; }
    else
        train part $pipes --steps $steps
    fi
done
same norm part
# shellcheck disable=SC2086
"$STRETTO" explain $common --freeze alpha=1/5,norm --freeze-every 3 >out 2>&1 || { cat out; exit 1; }
for row in 'blocks below the one whose gradients are smallest are frozen after every 3 steps, up$' 'not before step' ' 4  *1  *101,194 ' ' 13  *3  *34,250 '; do
    grep -q -- "$row" out || { echo "explain has no row $row"; cat out; exit 1; }
done
"$STRETTO" train --model vit-micro --freeze norm --dtype f16 --out refused >out 2>&1
[ $? = 2 ] && grep -q 'norms would miss them' out || { echo "f16 is taken"; cat out; exit 1; }
[ ! -e refused ] || { echo "a refused run left something"; exit 1; }
