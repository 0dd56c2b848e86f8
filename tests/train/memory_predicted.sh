# The predicted peak is within 5 % or 1 MiB of the measured one, for each model, with one and with several micro-batches; and of
# every rank, whatever the ranks talk by.
. "$ROOT/tests/train/lib.sh"
slow_build
numbers() { tr -d '\n' <run/summary.json | sed -n "s/.*\"$1\": \[\([^]]*\)\].*/\1/p" | tr ',' ' '; }
# judge WHAT: of every rank; what a communicator takes beside its library is a bound, $bound more than small models take
bound=0
judge() {
    echo "$* measured $(numbers peak_bytes) predicted $(numbers predicted_peak_bytes)"
    echo "$(numbers peak_bytes) $(numbers predicted_peak_bytes)" | awk -v bound=$bound '{
        for (i = 1; i <= NF / 2; i++) {
            have = $i; off = $(i + NF / 2) - have; may = 0.05 * have > 1048576 ? 0.05 * have : 1048576
            if (off < -may || off > may + bound) { print "rank " i - 1 " is off by " off; exit 1 }
        }
        exit NF < 2 }' || exit 1
}
check() {
    rm -rf run
    "$STRETTO" train --steps 4 --save-every never --out run --quiet "$@" || exit 1
    judge "$@"
}
check_ranks() {
    way=$1 ranks=$2
    shift 2
    rm -rf run
    as_ranks "$way" "$ranks" --steps 2 --threads 1 --save-every never --eval-every never --out run --quiet "$@" || exit 1
    judge "$way $ranks $*"
}
for model in mlp lenet resnet8 resnet20; do
    check --model $model --data synthetic:size=32,channels=3,count=512,test_count=64
    check --model $model --data synthetic:size=32,channels=3,count=512,test_count=64 --micro-batches 4
done
check --model resnet8 --data digits # small ones: most is library
check --model resnet20 --data digits --threads 1
check --model vit-micro --data digits
check --model resnet8 --data digits --trace 1-9999
check --model resnet18-cifar --data synthetic:size=32,channels=3,count=256,test_count=64 --batch 32
"$STRETTO" train --model resnet18-cifar --steps 1 --eval-every never --out weights --quiet || exit 1
check --model resnet18-cifar --data synthetic:size=8,channels=1,count=64,test_count=16 --batch 8 --weights weights # read beside all that is there
check --model vit-micro --data synthetic:size=32,channels=3,count=512,test_count=64
check --model vit-tiny --data synthetic:size=32,channels=3,count=256,test_count=64 --patch 4 --batch 32 --micro-batches 2
check --model bert-tiny --data synthetic:count=256,test_count=64 --batch 16
# Data out of files: what reading them took is not a part of the run.
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%s ", i * 7919 % 10007 }' >text
"$STRETTO" tokens text tokens >out || exit 1
check --model gpt2-nano --data tokens:tokens --seq 64 --batch 8
mkdir own
header="{'descr': '|u1', 'fortran_order': False, 'shape': (16000, 3, 16, 16), }"
{
    printf "\223NUMPY\001\000\\$(printf %03o ${#header})\000%s" "$header"
    head -c 12288000 /dev/zero
} >own/x_train.npy
header="{'descr': '|u1', 'fortran_order': False, 'shape': (16000,), }"
{
    printf "\223NUMPY\001\000\\$(printf %03o ${#header})\000%s" "$header"
    head -c 16000 /dev/zero
} >own/y_train.npy
check --model mlp --data npy:own
check --model resnet8 --data npy:own,classes=10

images=synthetic:size=32,channels=3,count=256,test_count=64
tokens=synthetic:count=256,test_count=64
check_ranks threads 4 --model resnet20 --data $images
check_ranks shm 2 --model resnet18-cifar --data $images --batch 8
check_ranks shm 2 --model mlp --data $images
check_ranks shm 2 --model resnet8 --data digits
# explain tells what the ranks that run do, and refuses what they refuse: its own process has kernels, too.
set -- --model resnet8 --data digits --steps 2 --threads 1 --save-every never --eval-every never
told=$("$STRETTO" explain -n 2 "$@" --json | sed 's/.*"predicted_peak_bytes": \([0-9]*\).*/\1/')
numbers predicted_peak_bytes | awk -v told="$told" '{
    off = told - $1; print "explain: " told ", rank 0: " $1
    exit off < -262144 || off > 262144 }' || exit 1
for less in 0 1572864; do
    rm -rf limited
    "$STRETTO" explain -n 2 "$@" --quiet --memory-limit $((told - less)) 2>err
    explained=$?
    "$STRETTO" train -n 2 "$@" --quiet --memory-limit $((told - less)) --out limited 2>err
    trained=$?
    echo "$less bytes below what explain predicted: exit $explained of explain, $trained of train"
    [ $explained = $((less ? 5 : 0)) ] && [ $trained = $explained ] || { cat err; exit 1; }
done
check_ranks shm 3 --model vit-micro --data digits --batch 48
bound=8388608
if built UCX; then
    check_ranks ucx 4 --model mlp --data $images
    check_ranks ucx 2 --model bert-tiny --data $tokens --batch 8
    check_ranks hosts 4 --model vit-micro --data $images
fi
if built MPI && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    check_ranks mpi 2 --model mlp --data $images
    check_ranks mpi 4 --model resnet8 --data $images
fi

# Every part is a row of its own, and the peak is their sum; the communicator's is what it says.
rows() { "$STRETTO" explain --model mlp -n 2 --json "$@" | tr ',{' '\n\n' | sed -n 's/^ *"\([a-z_]*\)": *\([0-9]*\)}*$/\1 \2/p'; }
for comm in shm $(built UCX && echo ucx); do
    rows --comm "$comm" | awk -v comm="$comm" '
        $1 == "predicted_peak_bytes" { peak = $2 }
        listed { sum += $2; if ($1 == "communicator") own = $2 }
        $1 == "predicted_peak_bytes" { listed = 1 }
        END { print comm ": " peak " predicted, rows " sum ", communicator " own
              exit !(peak == sum && (comm == "shm" ? own == 0 : own > 4194304)) }' || exit 1
done
