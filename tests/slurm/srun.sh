# srun alone says who the ranks are and how they meet: one node, several, uneven ones.
. "$ROOT/tests/slurm/lib.sh"
code 0 srun -n 3 -N 1 "$probe"
says out '^rank 2 of 3, local 2 of 3, node 0 of 1, 3 on this machine, attempt -, srun: SLURM_PROCID 2'
code 0 srun -n 4 -N 2 --ntasks-per-node=2 "$probe"
says out '^rank 3 of 4, local 1 of 2, node 1 of 2'
code 0 srun -n 5 -N 2 "$probe"
# Slurm decides how 5 tasks spread over 2 nodes; the last one is the last of its node.
last=$(sed -n 's/^rank 4 of 5, local \([0-3]\) of \([1-4]\), node 1 of 2.*/\1 \2/p' out)
[ -n "$last" ] && [ $((${last% *} + 1)) = "${last#* }" ] || { echo "rank 4 is not the last of node 1"; cat out; exit 1; }
[ "$(grep -c '^rank' out)" = 5 ] || { cat out; exit 1; }
[ -z "$(ls -A | grep '^\.stretto')" ] || { echo "a rendezvous file is left"; ls -A; exit 1; }
code 0 srun -n 2 -N 2 "$probe" --init "file://$PWD/rendezvous"
[ ! -e rendezvous ] || exit 1
PROBE=die:1 code 137 srun -n 2 -N 2 "$probe"
says err 'rank 0 hears: rank 1'
# the same --rank on every task: those it is wrong for refuse, the others name them
code 4 srun -n 2 "$probe" --rank 0 --world-size 2 --join-limit 2
says err 'contradicts srun'
