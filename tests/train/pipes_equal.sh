# Pipelines whose ranks are processes end with the bits of one device: over shared memory and with MPI. The matrix of all
# schedules, with ranks as threads, is tests/equal.
. "$ROOT/tests/train/lib.sh"
tokens=synthetic:kind=tokens,seq=16,vocab=200,predictions=3,count=60,test_count=8
images=synthetic:size=8,count=60,test_count=8
mpi=
built MPI && [ -z "$SAN" ] && mpirun --version 2>/dev/null | grep -q 'Open MPI' && mpi=mpi
# pipe WAY SCHEDULE STAGES REPLICAS MICRO-BATCHES MODEL OPTION...: five steps, the last of 12 samples
pipe() {
    way=$1 schedule=$2 stages=$3 replicas=$4 micros=$5 model=$6
    shift 6
    data=$images
    [ "$model" = bert-tiny ] && data=$tokens
    common="--model $model --data $data --batch 12 --steps 5 --threads 1 --log-every 1 --eval-every never --save-every never --quiet $*"
    one=one-$model-${replicas}x$micros-$(echo "$*" | tr -d ' -')
    # shellcheck disable=SC2086
    [ -d "$one" ] || "$STRETTO" train $common --deal "${replicas}x$micros" --out "$one" || exit 1
    grid="--strategy $schedule --stages $stages --replicas $replicas --micro-batches $micros"
    rm -rf many
    case $way in
    mpi)
        # shellcheck disable=SC2086
        mpirun --allow-run-as-root --oversubscribe --bind-to none -np $((stages * replicas)) "$STRETTO" train $common $grid --comm mpi --out many || exit 1
        ;;
    *)
        # shellcheck disable=SC2086
        "$STRETTO" train $common $grid --spawn processes --comm "$way" --out many || exit 1
        ;;
    esac
    a=$(key "$one/summary.json" param_hash) b=$(key many/summary.json param_hash)
    echo "$way $schedule $stages x $replicas x $micros $model $*: $a $b"
    [ -n "$a" ] && [ "$a" = "$b" ] || exit 1
    [ -n "$(norms many)" ] && [ "$(norms "$one")" = "$(norms many)" ] || { echo "norms differ"; exit 1; }
}
for way in shm $mpi; do
    pipe $way 1f1b 2 1 3 bert-tiny
    pipe $way interleaved 2 2 3 resnet8 --sync-bn
    pipe $way zbv 2 1 4 vit-micro
    pipe $way gpipe 4 1 3 mlp
    pipe $way mp 2 2 1 mlp
    pipe $way v-min 2 2 3 resnet8
done
[ -n "$mpi" ] || { echo "shm alone: no MPI here"; exit 0; }
