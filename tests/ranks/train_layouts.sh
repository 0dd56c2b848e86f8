# Ranks with different instruction sets lay out their tensors in different ways, and would read garbage from one another:
# they are refused before the first step. With the same variable on all of them they train.
. "$ROOT/tests/ranks/lib.sh"
model="--model resnet8 --threads 1 --batch 16 --steps 2 --eval-every 1"
shown() { "$STRETTO" explain $model --show graph | sed -n 's/onednn:[^ ]*//; /^  *[0-9][0-9]*  *[A-Z] /p'; } # its operations alone
shown >own.txt
ONEDNN_MAX_CPU_ISA=AVX2 shown >avx2.txt
cut -c 1-100 own.txt | grep -q 16 || { echo "the layouts of this machine have no blocks of 16"; exit 77; }
! cmp -s own.txt avx2.txt || { echo "this machine has no other layouts than with AVX2"; exit 77; }
# two CODE ISA0 ISA1 OPTION...: both ranks end with that code
two() {
    wanted=$1 isa0=$2 isa1=$3
    shift 3
    rm -rf run
    ONEDNN_MAX_CPU_ISA=$isa0 train $model "$@" --rank 0 --world-size 2 --init "file://$PWD/meet" --out run >out0 2>err0 &
    job=$!
    ONEDNN_MAX_CPU_ISA=$isa1 train $model "$@" --rank 1 --world-size 2 --init "file://$PWD/meet" --out run >out1 2>err1
    got1=$?
    wait "$job"
    got0=$?
    [ "$got0 $got1" = "$wanted $wanted" ] || { echo "exit codes $got0 and $got1, not $wanted"; cat err0 err1; exit 1; }
}
for strategy in ddp "1f1b --stages 2 --micro-batches 2"; do
    two 2 ALL AVX2 --strategy $strategy
    for rank in 0 1; do
        says err$rank "disagree on layouts: rank [01] has '[0-9a-f]*', rank [01] has '[0-9a-f]*'"
        says err$rank 'set ONEDNN_MAX_CPU_ISA on all ranks'
    done
    [ ! -e run/metrics.jsonl ] || { echo "trained all the same"; exit 1; }
    two 0 AVX2 AVX2 --strategy $strategy
done
