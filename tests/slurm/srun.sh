# srun alone says who the ranks are and how they meet: one node, several, uneven ones.
. "$ROOT/tests/slurm/lib.sh"
code 0 srun -n 3 -N 1 "$probe"
says out '^rank 2 of 3, local 2 of 3, node 0 of 1, 3 on this machine, attempt -, srun: SLURM_PROCID 2'
code 0 srun -n 4 -N 2 --ntasks-per-node=2 "$probe"
says out '^rank 3 of 4, local 1 of 2, node 1 of 2'
code 0 srun -n 5 -N 2 "$probe"
says out '^rank 4 of 5, local [01] of [123], node 1 of 2'
[ "$(grep -c '^rank' out)" = 5 ] || { cat out; exit 1; }
[ -z "$(ls -A | grep '^\.stretto')" ] || { echo "a rendezvous file is left"; ls -A; exit 1; }
code 0 srun -n 2 -N 2 "$probe" --init "file://$PWD/rendezvous"
[ ! -e rendezvous ] || exit 1
PROBE=die:1 code 137 srun -n 2 -N 2 "$probe"
says err 'rank 0 hears: rank 1'
# the same --rank on every task: those it is wrong for refuse, the others name them
code 4 srun -n 2 "$probe" --rank 0 --world-size 2 --join-limit 2
says err 'contradicts srun'
