# Real training under Slurm: the parameters of one device that is dealt the same micro-batches. By srun on one node and on two, with
# each communicator, and by srun --mpi=pmix, where MPI carries it.
. "$ROOT/tests/slurm/lib.sh"
options="--model mlp --threads 1 --steps 30 --eval-every never --save-every never --quiet"
"$STRETTO" train $options --deal 3x1 --batch 66 --out three || exit 1
code 0 srun -N 1 -n 3 "$STRETTO" train $options --batch 66 --out run
same three run
"$STRETTO" train $options --deal 4x1 --batch 48 --out four || exit 1
# train COMM SRUN-OPTIONS...
train() {
    rm -rf run
    comm=$1
    shift
    code 0 srun -N 2 --ntasks-per-node=2 "$@" "$STRETTO" train $options --batch 48 --comm "$comm" --out run
    same four run
}
for comm in auto $(built UCX && echo ucx hosts); do train $comm; done
# MPI's shared memory has the host's name in its files, and all nodes here have the same: by TCP
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
if built MPI && srun --mpi=list 2>&1 | grep -q pmix; then train mpi --mpi=pmix; fi
[ -z "$(ls -A | grep '^\.stretto')" ] || { echo "a rendezvous file is left"; ls -A; exit 1; }
