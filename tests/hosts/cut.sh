# A host that is cut off in mid-run: both sides end by themselves, with 4, and say so.
. "$ROOT/tests/hosts/lib.sh"
make_key
export PROBE=stay
on 2 "$probe" -n 2 --nodes 2 --node-rank 1 --init "tcp://$net.1:29500" --key key --out run >out1 2>err1 &
second=$!
on 1 "$probe" -n 2 --nodes 2 --node-rank 0 --init "tcp://$net.1:29500" --key key --out run >out 2>err &
first=$!
tries=0
for rank in 0 1 2 3; do
    until grep -qs "rank $rank of 4" run/rank-$rank.log; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "rank $rank did not come"; cat err err1; exit 1; }
    done
done
ip -n "$HOSTS_PREFIX-2" link set net0 down
wait $first
code=$?
wait $second
code1=$?
ip -n "$HOSTS_PREFIX-2" link set net0 up
[ "$code $code1" = "4 4" ] || { echo "exit codes $code $code1"; cat err err1; exit 1; }
for rank in 0 1; do says err "rank $rank hears: rank [23] (host h2) is lost: silent for .*; all of host h2 is out of reach: ranks 2-3"; done
for rank in 2 3; do says err1 "rank $rank hears: host h1 (ranks 0-1) is out of reach: the control server there, at tcp://$net.1:29500, is silent"; done
