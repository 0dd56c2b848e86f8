# Training on two hosts x two ranks, by tcp:// and by file://, shared memory inside and TCP between, or TCP alone: the parameters of one
# device that is dealt the same micro-batches.
. "$ROOT/tests/hosts/lib.sh"
need UCX
make_key
options="--data digits --threads 1 --batch 48 --eval-every never --save-every never --quiet"
# train COMM OPTIONS...: on both hosts, with the hash of `one`; COMM is what carried it
train() {
    rm -rf run
    comm=$1
    shift
    pair 0 "$STRETTO" train $options $length -n 2 --nodes 2 "$@"
    same one run
    says run/summary.json "\"comm\": \"$comm\""
}
for length in "--model mlp --epochs 1" "--model resnet8 --steps 20"; do # an epoch ends with a short step
    rm -rf one
    "$STRETTO" train $options $length --deal 4x1 --out one || exit 1
    train hosts --init "tcp://$net.1:29500" --key key
    train hosts --init "file://$PWD/rendezvous"
    train ucx --init "tcp://$net.1:29500" --key key --interface net0 --comm ucx
done
[ ! -e rendezvous ] || { echo "the file is left"; exit 1; }
