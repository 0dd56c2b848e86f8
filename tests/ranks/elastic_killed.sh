# Killed in each phase of a change to another grid, by kill -9: nothing is left, and a resume on the same ranks, or on one device, ends
# as without it.
. "$ROOT/tests/ranks/lib.sh"
vit="--model vit-micro --data synthetic:size=8,count=53,test_count=8 --batch 16 --epochs 2 --threads 1 --lr-policy const --warmup 0 --quiet --sum tree"
pipe="--strategy gpipe --stages 4 -n 4 --micro-batches 4 --freeze alpha=1/3 --freeze-every 3 --auto-pipe params --auto-dp"
shm() { find /dev/shm -maxdepth 1 -name '*stretto*' | wc -l; }
# shellcheck disable=SC2086
whole undisturbed $vit $pipe 2>err
before=$(shm)
for at in PLAN TAKE OPEN MOVE START; do
    for rank in 0 3; do
        rm -rf killed single
        # shellcheck disable=SC2086
        STRETTO_FAULT="rank=$rank,step=3,at=$at,do=kill" train $vit $pipe --save-every 1 --out killed >out 2>err && { echo "not killed at $at"; exit 1; }
        nobody_left killed
        [ "$(shm)" -le "$before" ] || { echo "killed at $at, rank $rank: something is left in /dev/shm"; exit 1; }
        [ $rank = 3 ] || cp -r killed single
        train --resume --quiet --out killed >out 2>err || { echo "killed at $at, rank $rank"; cat out err; exit 1; }
        ends_as killed "$want"
        cmp undisturbed/course.jsonl killed/course.jsonl || exit 1
        [ -d single ] || continue
        train --resume --quiet --out single --strategy single --stages 1 -n 1 --deal 1x4 >out 2>err || { echo "on one device"; cat out err; exit 1; }
        ends_as single "$want"
    done
done
