#!/bin/sh
# bench_hosts.sh STRETTO [RATE...]: two hosts, played by network namespaces, train data parallel over a network of each
# RATE (of tc: 10gbit, 2gbit, ...), one rank of one thread a host, each on a core of its own. Prints the step, what of
# it communication added (exposed, with waiting for the other) and what went on behind computation, beside one rank alone. Needs root and iproute2.
#
# Rounds go through all cases in turn, the table shows medians. ROUNDS, STEPS, MODEL, BATCH (of a rank) change the work.
set -u
stretto=$(realpath "${1:?usage: bench_hosts.sh STRETTO [RATE...]}")
shift
[ $# -gt 0 ] || set -- 10gbit 2gbit 1gbit
: "${ROUNDS:=3}" "${STEPS:=10}" "${MODEL:=resnet18-cifar}" "${BATCH:=32}"
skip() { echo "bench-hosts: skipped: $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null && command -v tc >/dev/null || skip "iproute2 is not installed"

name=sb$(($$ % 10000))
net=10.$((64 + $$ % 64)).$(($$ / 64 % 256))
work=$(mktemp -d)
take_down() {
    trap - EXIT
    for i in 1 2; do ip netns del $name-$i 2>/dev/null; done
    ip link del $name 2>/dev/null
    rm -rf "$work"
}
trap take_down EXIT
trap 'exit 130' INT TERM
ip link add $name type bridge 2>"$work/why" || skip "no bridges here: $(cat "$work/why")"
ip link set $name up
for i in 1 2; do
    ip netns add $name-$i && ip link add $name-$i type veth peer name net0 netns $name-$i &&
        ip link set $name-$i master $name up && ip -n $name-$i link set lo up &&
        ip -n $name-$i addr add $net.$i/24 dev net0 && ip -n $name-$i link set net0 up ||
        skip "the network cannot be built"
done
"$stretto" key "$work/key" >/dev/null || exit 1

# options of every run; one rank alone, or one of two
work_of() {
    echo "--model $MODEL --data synthetic:size=32,channels=3,classes=10,count=4096,test_count=64 --steps $STEPS" \
        "--threads 1 --eval-every never --save-every never --quiet"
}
field() { sed -n "s/.*\"$2\": \\([0-9.]*\\).*/\\1/p" "$1/summary.json" | head -n 1; }
# figures CASE FOLDER: a line "case step exposed hidden" of milliseconds
figures() {
    exposed=$(echo "$(field "$2" comm_exposed) $(field "$2" idle)" | awk '{ print $1 + $2 }')
    echo "$1 $(field "$2" p50) $exposed $(field "$2" comm_hidden)" >>"$work/figures"
}

one_alone() {
    rm -rf "$work/alone"
    # shellcheck disable=SC2046
    taskset -c 0 "$stretto" train $(work_of) --batch "$BATCH" --out "$work/alone" || exit 1
    figures alone "$work/alone"
}
two_hosts() {
    rm -rf "$work"/run-*
    for i in 1 2; do
        ip netns exec $name-$i tc qdisc replace dev net0 root tbf rate "$1" burst 1mb latency 50ms || exit 1
    done
    for i in 1 2; do
        # shellcheck disable=SC2046
        ip netns exec $name-$i taskset -c $((i - 1)) "$stretto" train $(work_of) --batch $((2 * BATCH)) --nodes 2 \
            --node-rank $((i - 1)) -n 1 --init tcp://$net.1:9911 --key "$work/key" --interface net0 \
            --out "$work/run-$i" >"$work/log-$i" 2>&1 &
    done
    wait
    [ -f "$work/run-1/summary.json" ] || { cat "$work"/log-*; exit 1; }
    figures "$1" "$work/run-1"
}
for round in $(seq "$ROUNDS"); do
    echo "round $round of $ROUNDS" >&2
    one_alone
    for rate in "$@"; do two_hosts "$rate"; done
done
sort -k1,1 -k2,2n "$work/figures" | awk -v cases="alone $*" '
    { count[$1]++; step[$1, count[$1]] = $2; exposed[$1, count[$1]] = $3; hidden[$1, count[$1]] = $4 }
    END {
        n = split(cases, name, " ")
        printf "%-10s %10s %12s %10s %10s\n", "network", "step ms", "exposed ms", "hidden ms", "two of one"
        for (i = 1; i <= n; i++) {
            middle = int((count[name[i]] + 1) / 2); s = step[name[i], middle]
            printf "%-10s %10.1f %12.1f %10.1f", name[i], s, exposed[name[i], middle], hidden[name[i], middle]
            if (i > 1) printf " %9.2fx", 2 * step["alone", int((count["alone"] + 1) / 2)] / s
            printf "\n"
        }
    }'
