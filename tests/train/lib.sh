# Shared by the tests of whole runs. Not a test itself: suite-scripts passes over lib.sh.
set -u
shared=${STRETTO_SHARED:-$ROOT/../shared}
# key FILE NAME: a number, text or null of a summary.json that stands on a line of its own.
key() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }
# at_least VALUE LIMIT WHAT
at_least() {
    echo "$3: $1 (at least $2)"
    awk -v have="$1" -v want="$2" 'BEGIN { exit !(have + 0 >= want + 0) }' || { echo "too little"; exit 1; }
}
need_data() {
    [ -d "$shared/data/$1" ] || { echo "no $1 data beside the checkout"; exit 77; }
}
slow_build() {
    [ -z "$SAN" ] || { echo "too slow in a sanitizer build"; exit 77; }
}
built() { "$STRETTO" doctor 2>/dev/null | grep -q "optional parts .*$1 built"; } # UCX, MPI
norms() { sed -n 's/.*"grad_norm": *\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; }
# as_ranks WAY RANKS OPTION...: as threads (or the preset dp), as processes (or ddp with shm, ucx or hosts), under mpirun
as_ranks() {
    way=$1 count=$2
    shift 2
    case $way in
    threads | processes) "$STRETTO" train -n "$count" --spawn "$way" "$@" ;;
    dp) "$STRETTO" train -n "$count" --strategy dp "$@" ;;
    shm | ucx | hosts) "$STRETTO" train -n "$count" --strategy ddp --comm "$way" "$@" ;;
    mpi) mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$count" "$STRETTO" train --strategy ddp --comm mpi "$@" ;;
    esac
}
# cell MODEL RANKS MICRO-BATCHES WAY LENGTH...: that training, and the same on one device; false where they differ in a bit.
cell() {
    model=$1 ranks=$2 micros=$3 way=$4
    shift 4
    data=digits
    [ -z "$SAN" ] || data=synthetic:count=60,test_count=8,size=8 # a sanitizer is slow: an epoch of three steps
    [ "$model" = bert-tiny ] && data=synthetic:count=60,test_count=8,seq=16,predictions=3,vocab=100
    common="--model $model --data $data --device ${device:-cpu} --batch 24 --threads 1 --log-every 1 --eval-every never --save-every never --quiet $*"
    one=one-$model-${ranks}x$micros-$(echo "$*" | tr -d ' -')
    # shellcheck disable=SC2086
    [ -d "$one" ] || "$STRETTO" train $common --deal "${ranks}x$micros" --out "$one" || return 1
    rm -rf many
    # shellcheck disable=SC2086
    as_ranks "$way" "$ranks" $common --micro-batches "$micros" --out many || return 1
    a=$(key "$one/summary.json" param_hash) b=$(key many/summary.json param_hash)
    echo "$model, $ranks x $micros, $way, $*: $a $b"
    [ -n "$a" ] && [ "$a" = "$b" ] || return 1
    [ -n "$(norms many)" ] && [ "$(norms "$one")" = "$(norms many)" ] || { echo "norms differ"; return 1; }
}
