# Training on two hosts x two ranks: shared memory inside, TCP between. The bits are those of four ranks on one
# machine, by whatever data plane; a host cut off in mid-run ends both sides with 4, and --resume gives the same bits.
. "$ROOT/tests/hosts/lib.sh"
make_key
export UCX_TLS=tcp,self # these hosts share a kernel, and UCX would see it
options="--model mlp --batch 64 --steps 40 --seed 3 --save-every 10 --quiet"
hash_of() { sed -n 's/.*"param_hash": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }
WIRES=$("$STRETTO" train --comm ucx --rank 0 --world-size 1 --steps 1 --model mlp --out none --quiet 2>&1)
case $WIRES in *"is not known"*) echo "this build has no UCX"; exit 77 ;; esac

# shellcheck disable=SC2086
code 0 "$STRETTO" train -n 4 $options --out single
bits=$(hash_of single)
[ -n "$bits" ] || { cat single/summary.json; exit 1; }
for comm in auto ucx; do
    rm -rf run
    # shellcheck disable=SC2086
    pair 0 "$STRETTO" train -n 2 --nodes 2 --init "tcp://$net.1:29500" --key key --comm $comm --interface net0 \
        $options
    [ "$(hash_of run)" = "$bits" ] || { echo "--comm $comm: $(hash_of run), not $bits"; cat out err; exit 1; }
done
grep -q '"comm": "ucx"' run/summary.json || { cat run/summary.json; exit 1; }

# Long enough to be cut off after its first checkpoint.
options="--model mlp --batch 64 --steps 6000 --seed 3 --save-every 500 --quiet"
# shellcheck disable=SC2086
code 0 "$STRETTO" train -n 4 $options --out long
bits=$(hash_of long)
rm -rf run
node() {
    # shellcheck disable=SC2086
    on $(($1 + 1)) "$STRETTO" train -n 2 --nodes 2 --node-rank "$1" --init "tcp://$net.1:29500" --key key --out run $options ${2:-}
}
node 1 >out1 2>err1 &
second=$!
node 0 >out 2>err &
first=$!
tries=0
until [ -n "$(ls run/checkpoints 2>/dev/null)" ]; do
    sleep 0.05
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { echo "no checkpoint was written"; cat err err1; exit 1; }
done
ip -n "$HOSTS_PREFIX-2" link set net0 down
wait $first
code=$?
wait $second
code1=$?
ip -n "$HOSTS_PREFIX-2" link set net0 up
[ "$code $code1" = "4 4" ] || { echo "exit codes $code $code1, not 4"; cat err err1; exit 1; }
node 1 --resume >out1 2>err1 &
second=$!
node 0 --resume >out 2>err || { cat err err1; exit 1; }
wait $second || { cat err1; exit 1; }
[ "$(hash_of run)" = "$bits" ] || { echo "resumed: $(hash_of run), not $bits"; cat out err; exit 1; }
