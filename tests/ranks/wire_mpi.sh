# MPI, real mpirun (MPIRUN names another, MPICH's): sums of 2, 3 and 4 ranks have the bits of shm, also with MPI between pretended hosts; ranks that
# disagree all say so; a rank that dies ends the others, also at the very end; one that is late at its end is waited for.
. "$ROOT/tests/ranks/lib.sh"
wire=$ROOT/$B/wire-probe
mpirun=${MPIRUN:-mpirun}
command -v "$mpirun" >/dev/null || { echo "$mpirun is not installed"; exit 77; }
[ -z "${SAN:-}" ] || { echo "MPI is not tried under sanitizers"; exit 77; }
WIRE_RANK=0 WIRE_SIZE=1 "$wire" mpi alone >out 2>&1 || {
    grep -q 'is not known' out && { echo "this build has no MPI"; exit 77; }
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo PRTE_ALLOW_RUN_AS_ROOT=1
ended= # Open MPI 5 ends all ranks once one has failed, whatever it is told
case $("$mpirun" --version) in
*'Open MPI) 5'* | *'PRTE'*) oversubscribe='--oversubscribe --bind-to none' spare='--runtime-options recoverable' ended=yes ;;
*'Open MPI'*) oversubscribe='--oversubscribe --bind-to none' spare=--enable-recovery ;;
*) oversubscribe='' spare=-disable-auto-cleanup ;;
esac
# shellcheck disable=SC2086
mpi() { timeout 300 "$mpirun" $oversubscribe "$@"; }
hashes() { sed -n 's/^rank [0-9]* of [0-9]*: //p' "$1"; }

for size in 2 3 4; do
    for rank in $(seq 0 $((size - 1))); do
        WIRE_RANK=$rank WIRE_SIZE=$size "$wire" shm shm-$size >>shm-$size.out 2>&1 &
    done
    wait
    bits=$(hashes shm-$size.out | sort -u)
    [ "$(echo "$bits" | wc -w)" = 1 ] || { cat shm-$size.out; exit 1; }
    for comm in mpi hosts; do
        code 0 mpi -n $size "$wire" $comm $comm-$size
        [ "$(hashes out | wc -l)" = $size ] && [ "$(hashes out | sort -u)" = "$bits" ] ||
            { echo "$comm, $size ranks: not $bits"; cat out err; exit 1; }
    done
done

# Training: the same bits by shared memory, by MPI, and by UCX where the build has it.
train="--model mlp --batch 66 --steps 20 --seed 5 --quiet"
for comm in shm mpi ucx hosts; do
    # shellcheck disable=SC2086
    mpi -n 3 "$STRETTO" train --comm $comm $train --out $comm >out 2>err || {
        grep -q 'is not known' err && continue
        cat out err
        exit 1
    }
    got=$(sed -n 's/.*"param_hash": "\([0-9a-f]*\)".*/\1/p' $comm/summary.json)
    [ $comm != shm ] || trained=$got
    [ -n "$got" ] && [ "$got" = "$trained" ] || { echo "--comm $comm: $got, not $trained"; exit 1; }
    grep -q "\"comm\": \"$comm\"" $comm/summary.json || { cat $comm/summary.json; exit 1; }
done

# MPI's own sums, in whatever order: the same training, not the same bits by promise.
loss() { sed -n 's/.*"loss_last": \([0-9.e+-]*\).*/\1/p' "$1/summary.json"; }
code 0 mpi -n 3 "$STRETTO" train --comm mpi --deterministic off $train --out free
grep -q '"deterministic": false' free/summary.json || { cat free/summary.json; exit 1; }
echo "$(loss free) $(loss mpi)" | awk '{ d = $1 - $2; exit !(NF == 2 && d < 1e-4 && d > -1e-4) }' ||
    { echo "--deterministic off: loss $(loss free), not $(loss mpi)"; exit 1; }

mpi -n 3 "$wire" mpi differ differ >out 2>err && { echo "ranks that differ did not fail"; exit 1; }
says err "rank 0: all_reduce of 40000 f32"
says err "rank 2: all_reduce of 999 f32"

code 0 mpi -n 3 "$wire" mpi late late
[ "$(hashes out | wc -l)" = 3 ] || { cat out err; exit 1; }

# A rank that all know to be lost: the others say so and end. It lives until they have, so that no launcher ends them first.
timeout 300 "$mpirun" $oversubscribe $spare -n 3 "$wire" mpi silent silent >out 2>err
[ $? != 124 ] || { echo "a silent rank was waited for"; cat out err; exit 1; }
says err "rank 2 is lost"
[ -n "$ended" ] || says out "the others have closed"
[ -z "$(hashes out)" ] || { echo "a rank ended well without its peer"; cat out err; exit 1; }

# One that is killed. Open MPI leaves the survivors alone; MPICH's launcher ends them, often before they can speak.
timeout 300 "$mpirun" $oversubscribe $spare -n 3 "$wire" mpi die die >out 2>err
[ $? != 124 ] || { echo "a lost rank was waited for"; cat out err; exit 1; }
[ "$spare" = -disable-auto-cleanup ] || says err "rank 2 is lost"
[ -z "$(hashes out)" ] || { echo "a rank ended well without its peer"; cat out err; exit 1; }

# A rank is lost when the others wait for it to close, and when they end MPI: neither holds them.
for when in leave vanish; do
    timeout 300 "$mpirun" $oversubscribe $spare -n 3 "$wire" mpi $when $when >out 2>err
    [ $? != 124 ] || { echo "$when: a lost rank was waited for"; cat out err; exit 1; }
    [ "$(hashes out | wc -l)" -ge 2 ] || { echo "$when: ranks did not end well"; cat out err; exit 1; }
    [ $when = vanish ] || says out "the others have closed"
done
exit 0
