#!/bin/sh
# train.sh: trainings of one and several ranks on the first GPU, as users start them, in TAP. $B is the build folder.
#
# Ranks share the GPU, as threads and as processes. Bits are held against one device that replays the same micro-batches; NCCL's
# path runs with a host name of its own for each rank, which NCCL takes for two machines.
set -u
: "${B:=build}"
root=$(pwd)
case $B in /*) ;; *) B=$root/$B ;; esac
stretto=$B/stretto
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive
count=0 failed=0
ok() { # ok 0|1 WHAT [LOG]: 0 is right
    count=$((count + 1))
    [ "$1" = 0 ] && echo "ok $count - $2" && return
    failed=$((failed + 1))
    echo "not ok $count - $2"
    [ -z "${3:-}" ] || tail -n 6 "$3" | sed 's/^/# /'
}
hash_of() { sed -n 's/^param_hash *//p' "$1"; }
images="--data synthetic:size=32,channels=3,count=480,test_count=48 --batch 48"
train() { # train NAME OPTIONS
    name=$1
    shift
    timeout 120 "$stretto" train --device cuda --out "$name" --overwrite --save-every never "$@" >"$name.out" 2>&1
}
# started RANKS NAME OPTIONS: ranks by hand, a host name each
started() {
    ranks=$1 name=$2 pids=
    shift 2
    rm -f meet
    for r in $(seq 0 $((ranks - 1))); do
        NCCL_HOSTID=host$r NCCL_SOCKET_IFNAME=lo RANK=$r WORLD_SIZE=$ranks LOCAL_RANK=$r LOCAL_WORLD_SIZE=$ranks \
            "$stretto" train --device cuda --init "file://$work/meet" --out "$name" --overwrite --save-every never "$@" \
            >"$name.$r.out" 2>&1 &
        pids="$pids $!"
    done
    (sleep 100 && kill -9 $pids) 2>/dev/null &
    guard=$!
}
ended() { kill $guard 2>/dev/null; }

# The matrix of strategies, ranks as threads.
if command -v awk >/dev/null; then
    (cd "$root" && awk -f tests/equal/cells.awk -v set=cover -v device=cuda src/program/pipeline.def) >cells
elif [ -s "${CELLS_FILE:-}" ]; then
    cp "$CELLS_FILE" cells
fi
if [ -s cells ]; then
    timeout 200 "$B/equal" -l 30 <cells >equal.out 2>&1
    ok $? "equality matrix: $(tail -n 1 equal.out | cut -d';' -f1)"
else
    echo "# the equality matrix needs awk"
fi

# Ranks as processes and as threads, with the sums of peer.
for n in 2 3 4; do
    train deal --model resnet20 $images --steps 8 --deal ${n}x1
    want=$(hash_of deal.out)
    for way in "ddp --comm peer" "dp --comm peer" "ddp --comm shm" "zero3 --comm peer"; do
        train many --model resnet20 $images --steps 8 -n $n --strategy $way
        [ -n "$want" ] && [ "$(hash_of many.out)" = "$want" ]
        ok $? "$n ranks, $way: the bits of one device ($want)" many.out
    done
done

# Stages send their messages from device to device; without peer they go through the host. The bits are those of one device.
train deal --model resnet20 $images --steps 8 --deal 1x4
want=$(hash_of deal.out)
for way in "1f1b --comm peer" "1f1b --comm shm" "zbv --comm peer" "interleaved --virtual 2 --comm peer"; do
    for spawn in threads processes; do
        train many --model resnet20 $images --steps 8 -n 2 --stages 2 --micro-batches 4 --spawn $spawn --strategy $way
        [ -n "$want" ] && [ "$(hash_of many.out)" = "$want" ]
        ok $? "2 stages as $spawn, $way: the bits of one device ($want)" many.out
    done
done

# Versions of parameters, replicas that train apart, virtual time: the same bits however ranks are started and reach one another.
for strategy in "pipedream --stages 2" "pipedream-2bw --stages 2 --micro-batches 2" "diloco --sync-every 3"; do
    want=
    for way in "threads --comm peer" "processes --comm peer" "processes --comm shm" "threads --clock virtual"; do
        train many --model resnet20 $images --steps 8 --drop-last -n 2 --deterministic on --spawn $way --strategy $strategy
        [ -n "$want" ] || want=$(hash_of many.out)
        [ -n "$want" ] && [ "$(hash_of many.out)" = "$want" ]
        ok $? "2 ranks, $strategy, $way: the same bits ($want)" many.out
    done
done
rows() { grep '"kind":"train"' "$1/metrics.jsonl" | sed 's/"unix_s":[0-9.]*//' >"$1.rows"; }
for n in 1 2; do
    train clock$n --model resnet20 $images --steps 8 -n 2 --strategy 1f1b --stages 2 --micro-batches 4 --clock virtual --hetero base=1ms,slow=0:2
    rows clock$n
done
[ -s clock1.rows ] && cmp -s clock1.rows clock2.rows && [ "$(hash_of clock1.out)" = "$(hash_of clock2.out)" ]
ok $? "virtual time repeats: rows and parameters are the same" clock2.out

# NCCL adds two terms as we do.
train deal --model resnet20 $images --steps 8 --deal 2x1
for way in ddp zero3; do
    started 2 nccl --model resnet20 $images --steps 8 --strategy $way --comm nccl
    for p in $pids; do wait "$p"; done
    ended
    [ -n "$(hash_of nccl.0.out)" ] && [ "$(hash_of nccl.0.out)" = "$(hash_of deal.out)" ]
    ok $? "2 ranks, $way by nccl: the bits of one device" nccl.0.out
done
"$stretto" train --device cuda --model mlp --data digits --steps 2 -n 2 --comm nccl --out twins --overwrite >twins.out 2>&1
[ $? = 2 ] && grep -q "comm peer" twins.out
ok $? "two ranks on one GPU by nccl: exit 2, and --comm peer is named"

# A rank that is killed ends the others.
started 2 stages --model resnet20 $images --steps 8 --strategy 1f1b --stages 2 --micro-batches 4 --comm nccl
for p in $pids; do wait "$p"; done
ended
train deal --model resnet20 $images --steps 8 --deal 1x4
[ -n "$(hash_of stages.0.out)" ] && [ "$(hash_of stages.0.out)" = "$(hash_of deal.out)" ]
ok $? "2 stages with nccl: messages by peer, the bits of one device" stages.0.out

for way in nccl peer; do
    started 2 lost --model resnet20 $images --steps 100000 --eval-every never --comm $way
    for i in $(seq 60); do grep -q "^step [0-9]*0/" lost.0.out && break; sleep 0.5; done
    set -- $pids
    kill -9 "$2"
    wait "$1"
    code=$?
    [ $code = 4 ] && grep -q "rank 1.*lost" lost.0.out
    ok $? "a killed rank by $way: the other ends with 4 ($code) and says so" lost.0.out
    wait "$2"
    ended
done

# Types.
train scale --model resnet20 $images --steps 8 --dtype f16 --log-every 1
grep -q '"loss_scale":65536' scale/metrics.jsonl
ok $? "f16: the scale of the loss is in metrics.jsonl"
"$stretto" train --model mlp --data digits --steps 60 --lr 1e9 --warmup 0 --device cuda --out nan --overwrite >nan.out 2>&1
[ $? = 6 ] && grep -q "step [23]: the loss is" nan.out
ok $? "a loss that is not finite: exit 6, and the step is named"

# Checkpoints go to a CPU and back.
go() { "$stretto" train --model mlp --data digits --save-every 10 --out moved "$@" >>moved.out 2>&1; }
go --device cpu --steps 10 && go --device cuda --steps 20 --resume && go --device cpu --steps 30 --resume
ok $? "a checkpoint goes from CPU to GPU and back"
for device in cpu cuda; do "$stretto" eval moved --device $device 2>&1 | grep -E "^(loss|accuracy)" >eval.$device; done
[ -s eval.cpu ] && cmp -s eval.cpu eval.cuda
ok $? "eval on the GPU says what the CPU says"

# Bad input.
"$stretto" train --model mlp --data digits --steps 2 --device cuda:77 --out bad >bad.out 2>&1
[ $? = 2 ] && grep -q "cuda:0" bad.out
ok $? "a GPU that is not there: exit 2, and those there are are named"
"$stretto" train --model resnet50 --data synthetic:size=224,channels=3,classes=1000,count=64000 --batch 16384 --steps 2 \
    --device cuda --out big >big.out 2>&1
[ $? = 5 ] && grep -q "largest at the peak" big.out
ok $? "too little memory: exit 5 before the start, with the largest tensors"
echo "1..$count"
echo "# $failed of $count failed"
[ "$failed" = 0 ]
