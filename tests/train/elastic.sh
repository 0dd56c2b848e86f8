# Pipelines that shrink as blocks freeze, and whose freed ranks become replicas: as processes and threads, to the bits of one device
# that replays the course; killed in each phase of a change and resumed; what cannot be is refused.
. "$ROOT/tests/train/lib.sh"
# Samples that replicas do not divide; parts begin in the middle of epochs.
length="--batch 16 --epochs 3 --threads 1 --lr-policy const --warmup 0 --quiet"
vit="--model vit-micro --data synthetic:size=8,count=53,test_count=8"
resnet="--model resnet8 --data synthetic:size=8,count=53,test_count=8"
bert="--model bert-tiny --data synthetic:count=53,test_count=8,seq=16,predictions=3,vocab=100"
course="--freeze alpha=1/3 --freeze-every 3 --auto-pipe params --auto-dp"
# train NAME OPTION...
train() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$STRETTO" train $length --out "$name" "$@" 2>out || { echo "$name: $*"; cat out; exit 1; }
}
same() {
    for what in param_hash buffer_hash; do
        a=$(key "$1/summary.json" $what) b=$(key "$2/summary.json" $what)
        [ -n "$a" ] && [ "$a" = "$b" ] || { echo "$1 and $2: $what $a and $b"; exit 1; }
    done
}
grids() { sed 's/.*"frozen":\([0-9]*\),.*"stages":\([0-9]*\),"replicas":\([0-9]*\),"micro_batches":\([0-9]*\),.*/\1:\2x\3x\4/' "$1/course.jsonl" | paste -s -d ' '; }
# shellcheck disable=SC2086
{
    train shrinks $vit $course --strategy gpipe --stages 4 -n 4 --micro-batches 4
    [ "$(grids shrinks)" = "0:4x1x4 2:2x2x2 3:1x4x1" ] || { echo "grids: $(grids shrinks)"; exit 1; }
    train one $vit --course shrinks/course.jsonl --deal 1x4
    same shrinks one
    for how in "--strategy gpipe --spawn threads" "--strategy 1f1b" "--strategy 1f1b --zero-stage 1" "--strategy gpipe --zero-stage 2 --spawn threads" "--strategy zb-h1"; do
        rm -rf other
        train other $vit $course $how --stages 4 -n 4 --micro-batches 4
        same shrinks other
        rm -rf other
        train other $vit --course shrinks/course.jsonl $how --stages 4 -n 4 --micro-batches 4
        same shrinks other
    done
    # With --sum tree one device that only freezes ends alike.
    train tree $vit $course --strategy gpipe --stages 4 -n 4 --micro-batches 4 --sum tree
    train freezes $vit --freeze alpha=1/3 --freeze-every 3 --deal 1x4 --sum tree
    same tree freezes
    # Batch norm: running statistics are replica 0's when others come. Tied parameters. Norms, and frozen parameters that weigh.
    train bn $resnet $course --strategy 1f1b --stages 2 -n 2 --micro-batches 4
    case $(grids bn) in *:1x2x2*) ;; *) echo "batch norm: $(grids bn)"; exit 1 ;; esac
    train bn_one $resnet --course bn/course.jsonl --deal 1x4
    same bn bn_one
    train tied $bert --freeze 0,1,2 --freeze-every 3 --auto-pipe params-lambda --auto-dp --strategy gpipe --stages 2 -n 2 --micro-batches 4
    train tied_one $bert --course tied/course.jsonl --deal 1x4
    same tied tied_one
    train norm $vit --freeze norm --freeze-every 3 --auto-pipe params --auto-dp --strategy gpipe --stages 4 -n 4 --micro-batches 4
    train norm_one $vit --course norm/course.jsonl --deal 1x4
    same norm norm_one
    # Without --auto-dp freed ranks idle, and come first: whoever has no stage then still leads the run. No order of sums changes.
    idle="--freeze 0,2,3 --freeze-every 3 --auto-pipe params"
    train idle $vit $idle --strategy gpipe --stages 4 -n 4 --micro-batches 4
    [ "$(grids idle)" = "0:4x1x4 2:2x1x4 3:1x1x4" ] || { echo "idle: $(grids idle)"; exit 1; }
    train idle_one $vit --freeze 0,2,3 --freeze-every 3 --deal 1x4
    same idle idle_one
    train idle_again $vit --course idle/course.jsonl --strategy 1f1b --stages 4 -n 4 --micro-batches 4 --spawn threads --clock virtual
    same idle idle_again
    train idle_bn $resnet $idle --strategy 1f1b --stages 2 -n 2 --micro-batches 4
    train idle_bn_one $resnet --freeze 0,2,3 --freeze-every 3 --deal 1x4
    same idle_bn idle_bn_one
    train idle_tied $bert --freeze 0,1,2 --freeze-every 3 --auto-pipe params --strategy gpipe --stages 2 -n 2 --micro-batches 4
    train idle_tied_one $bert --freeze 0,1,2 --freeze-every 3 --deal 1x4
    same idle_tied idle_tied_one
    rm -rf part
    train part $vit $idle --strategy gpipe --stages 4 -n 4 --micro-batches 4 --steps 2
    for steps in 4 5 7 12; do
        "$STRETTO" train --resume --quiet --out part --steps $steps >out 2>&1 || { echo "idle, to step $steps"; cat out; exit 1; }
    done
    same idle part
    # In virtual time a change takes what was forecast, and times repeat; also of a run that was stopped.
    train virtual $vit $course --strategy gpipe --stages 4 -n 4 --micro-batches 4 --clock virtual --log-every 1
    same shrinks virtual
    train stopped $vit $course --strategy gpipe --stages 4 -n 4 --micro-batches 4 --clock virtual --log-every 1 --steps 5
    "$STRETTO" train --resume --quiet --out stopped --steps 12 >out 2>&1 || { echo "virtual time, resumed"; cat out; exit 1; }
    same shrinks stopped
    for run in virtual stopped; do
        sed -n 's/.*"step": *\([0-9]*\),.*"virtual_s": *\([0-9.e-]*\).*/\1 \2/p' $run/metrics.jsonl | grep '^12 ' | tail -n 1 >$run.last
    done
    [ -s virtual.last ] && cmp virtual.last stopped.last || exit 1
    # Stopped anywhere, also right behind a change and right before it.
    rm -rf part
    train part $vit $course --strategy gpipe --stages 4 -n 4 --micro-batches 4 --steps 2
    for steps in 3 4 6 7 12; do
        "$STRETTO" train --resume --quiet --out part --steps $steps >out 2>&1 || { echo "to step $steps"; cat out; exit 1; }
    done
    same shrinks part
    # The report draws the course.
    grep -q '<h2>Course</h2>' shrinks/report.html && grep -q 'from step 7</td><td>3 of 4 frozen</td><td>1 x 4, 1 micro-batch<' shrinks/report.html ||
        { echo "the report has no course"; exit 1; }
    grep -q '<h2>Course</h2>' freezes/report.html || { echo "the report of one device has no course"; exit 1; }
    [ -z "$SAN" ] || exit 0
    for run in shrinks bn idle idle_bn; do
        python3 - "$run" <<'END' || exit 1
import json, sys
told = json.load(open(sys.argv[1] + "/summary.json"))
for have, want in zip(told["peak_bytes"], told["predicted_peak_bytes"]):
    assert have <= want + (512 << 10), (sys.argv[1], have, want)
END
    done
}
