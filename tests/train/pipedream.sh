# Strategies whose steps overlap: bits do not depend on the clock, on how ranks are started, nor on where the pipeline is drained
# to evaluate and to save; a run that was killed or stopped anywhere goes on to the same bits; staleness is what was declared.
. "$ROOT/tests/train/lib.sh"
common="--model vit-micro --data synthetic:size=8,count=96,test_count=8 --batch 12 --steps 40 --threads 1 --dropout 0.1 --quiet"
# train NAME OPTION...: 40 steps into that folder
train() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $common --out "$name" "$@"
}
# same A B: equal parameters and losses
same() {
    a=$(key "$1/summary.json" param_hash) b=$(key "$2/summary.json" param_hash)
    [ -n "$a" ] && [ "$a" = "$b" ] || { echo "$1 and $2: $a and $b"; exit 1; }
    [ "$(key "$1/summary.json" loss_last)" = "$(key "$2/summary.json" loss_last)" ] || { echo "$1 and $2: other losses"; exit 1; }
}
for how in "pipedream --stages 3" "pipedream --stages 2 --replicas 2 --vertical-sync" "pipedream-2bw --stages 3 --micro-batches 3"; do
    tag=$(echo "$how" | tr -dc 'a-z0-9')
    # shellcheck disable=SC2086
    set -- --strategy $how
    train "$tag" "$@" --eval-every never --save-every never || exit 1
    train "$tag-threads" "$@" --eval-every 7 --save-every 5 --spawn threads || exit 1
    train "$tag-virtual" "$@" --eval-every 9 --save-every never --clock virtual --hetero base=1ms,slow=0:2,transient=0.3:500us || exit 1
    for other in threads virtual; do same "$tag" "$tag-$other"; done
    # Killed in each phase, then resumed; also the last stage, or the rank that tells what another replica has finished.
    for at in F SEND_F RECV_B B SEND_B STEP REPORT SAVE REPORT2; do
        rm -rf killed
        step=17 rank=1
        case $at in
        SAVE) step=20 ;;
        SEND_F | RECV_B) rank=0 ;; # which the last stage has not
        REPORT2) at=REPORT rank=2 ;;
        esac
        STRETTO_FAULT="rank=$rank,step=$step,at=$at,do=kill" train killed "$@" --eval-every never --save-every 5 >out 2>&1 && { echo "not killed at $at"; exit 1; }
        [ -d killed/checkpoints/step-00000015 ] || { echo "killed at $at: no checkpoint"; cat out; exit 1; }
        "$STRETTO" train --resume --quiet --out killed >out 2>&1 || { echo "$how, killed at $at"; cat out; exit 1; }
        same "$tag" killed
    done
    # Stopped by a signal, at no step in particular.
    rm -rf stopped
    # shellcheck disable=SC2086
    "$STRETTO" train $common --out stopped "$@" --eval-every never --save-every 1000 --log-every 1 --hetero base=20ms >out 2>&1 &
    pid=$!
    while ! grep -q '"step":3,' stopped/metrics.jsonl 2>/dev/null && kill -0 $pid 2>/dev/null; do sleep 0.05; done
    kill -TERM $pid 2>/dev/null
    wait $pid
    code=$?
    [ $code = 143 ] || { echo "$how, stopped: exit code $code"; cat out; exit 1; }
    "$STRETTO" train --resume --quiet --out stopped >out 2>&1 || { echo "$how, stopped"; cat out; exit 1; }
    same "$tag" stopped
done
# What updates were computed with, rank by rank: the first few with the first version.
tr -d ' \n' <pipedreamstages3/summary.json | grep -q '"staleness":\[42,40,38\],' || { echo "staleness of pipedream"; grep -A9 staleness pipedreamstages3/summary.json; exit 1; }
tr -d ' \n' <pipedream2bwstages3microbatches3/summary.json | grep -q '"staleness":\[3,117\],' || { echo "staleness of 2bw"; exit 1; }
# A gradient that is not finite: the step and the stage, and nothing of it is saved.
STRETTO_FAULT="rank=2,step=9,at=F,do=nan" train bad --strategy pipedream --stages 3 --eval-every never --save-every 4 >out 2>&1
code=$?
[ $code = 6 ] || { echo "not finite: exit code $code"; cat out; exit 1; }
grep -q 'step 9, stage 2' out && ! grep -q -e '--clip' out && [ -d bad/checkpoints/step-00000008 ] && [ ! -d bad/checkpoints/step-00000012 ] || { cat out; exit 1; }
STRETTO_FAULT="rank=1,step=9,at=TIE,do=nan-gradient" train blamed --strategy pipedream --stages 3 --eval-every never --save-every never >out 2>&1
code=$?
[ $code = 6 ] && grep -q 'step 9, stage 1' out && grep -q 'rank 1 ended: exit code 6, last at step 9' out || { echo "not finite on rank 1: exit code $code"; cat out; exit 1; }
# Another strategy may go on with the newest version, and back again; that bits may differ is said.
"$STRETTO" train --resume --quiet --out pipedreamstages3-threads --steps 44 --strategy 1f1b --stages 3 --micro-batches 3 >out 2>&1 || { cat out; exit 1; }
grep -q 'staleness was 2,1,0 .* it is 0 now: bits may differ' out || { echo "the change of strategy is not told"; cat out; exit 1; }
"$STRETTO" train --resume --quiet --out pipedreamstages3-threads --steps 48 --strategy pipedream --stages 2 --micro-batches 1 >out 2>&1 || { cat out; exit 1; }
grep -q 'staleness was 0 .* it is 1,0 now' out || { echo "nor the change back"; cat out; exit 1; }
