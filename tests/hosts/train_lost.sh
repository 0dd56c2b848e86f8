# A rank of a training on two hosts is killed: with --restarts both hosts start again, each by itself, from the checkpoint, and the
# parameters are those of one device that was never disturbed. It is killed where it reduces and where it saves, on either host.
. "$ROOT/tests/hosts/lib.sh"
need UCX
make_key
options="--model mlp --data digits --threads 1 --batch 48 --steps 100 --save-every 20 --eval-every never --quiet"
"$STRETTO" train $options --deal 4x1 --out one || exit 1
# lost RANK WHERE MEETING...
lost() {
    rm -rf run
    rank=$1 where=$2
    shift 2
    STRETTO_FAULT=rank=$rank,$where,do=kill pair 0 "$STRETTO" train $options -n 2 --nodes 2 "$@" --restarts 1
    cat err err1 >all
    says all "rank $rank ended: killed by signal 9"
    says err 'all ranks start again, 1 of 1 times'
    says err1 'all ranks start again, 1 of 1 times'
    same one run
}
for rank in 3 0; do # of a host without the server, and of the one that has it
    lost $rank step=50,at=REDUCE --init "tcp://$net.1:29500" --key key
    lost $rank step=50,at=REDUCE --init "file://$PWD/rendezvous"
done
lost 0 step=60,at=SAVE --init "tcp://$net.1:29500" --key key
[ -z "$(ls -A | grep rendezvous)" ] || { echo "a rendezvous file is left"; ls -A; exit 1; }
