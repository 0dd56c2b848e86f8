# Training, and one host is cut off in mid-run: both sides end by themselves with 4 and name who is lost; what was saved is whole, and
# --resume on both ends with the parameters of an unbroken run on one device.
. "$ROOT/tests/hosts/lib.sh"
need UCX
make_key
options="--model mlp --data digits --threads 1 --batch 48 --steps 3000 --save-every 50 --eval-every never --quiet"
meet="-n 2 --nodes 2 --init tcp://$net.1:29500 --key key"
"$STRETTO" train $options --deal 4x1 --out one || exit 1
# saved: a whole checkpoint is there
saved() {
    tries=0
    until ls run/checkpoints/* >/dev/null 2>&1; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "no checkpoint comes"; cat err err1; exit 1; }
    done
}
# cut COMM COMMAND...: COMMAND takes a host off the network
cut() {
    rm -rf run
    comm=$1
    shift
    on 2 "$STRETTO" train $options $meet --comm $comm --node-rank 1 --out run >out1 2>err1 &
    second=$!
    on 1 "$STRETTO" train $options $meet --comm $comm --node-rank 0 --out run >out 2>err &
    first=$!
    saved
    "$@" || { echo "cannot: $*"; exit 1; }
    wait $first
    code=$?
    wait $second
    code1=$?
    [ "$code $code1" = "4 4" ] || { echo "exit codes $code $code1"; cat err err1; exit 1; }
    for rank in 0 1; do says err "rank $rank ends: rank [23] (host h2) is lost: silent for .*; all of host h2 is out of reach: ranks 2-3"; done
    for rank in 2 3; do says err1 "rank $rank ends: host h1 (ranks 0-1) is out of reach: the control server there, at tcp://$net.1:29500, is silent"; done
}
# resume COMM: from the checkpoint, so that what was written before it stays
resume() {
    kept=$(head -n 1 run/metrics.jsonl)
    pair 0 "$STRETTO" train $options $meet --comm $1 --resume
    [ "$(head -n 1 run/metrics.jsonl)" = "$kept" ] || { echo "it began anew"; exit 1; }
    same one run
}
# the host's own interface fails; a cable is pulled elsewhere, and neither host is told
cut auto ip -n "$HOSTS_PREFIX-2" link set net0 down
ip -n "$HOSTS_PREFIX-2" link set net0 up
resume auto
port=sv${HOSTS_PREFIX#strt}-1
cut ucx ip link set "$port" nomaster
ip link set "$port" master "sb${HOSTS_PREFIX#strt}"
resume ucx
