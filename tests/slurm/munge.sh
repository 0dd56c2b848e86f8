# Nodes that share no folder and have no key: MUNGE carries the job's secret, and doctor and the log say so. Where MUNGE does not
# answer, the file in the working folder serves, as before; a socket that is not there is no reason to stop.
. "$ROOT/tests/slurm/lib.sh"
[ -n "${SLURM_NAMES:-}" ] || { echo "the nodes' names cannot be made known here"; exit 77; }
need MUNGE
# apart COMMAND...: every rank in a folder of its own
apart() { srun -N 2 --ntasks-per-node=2 sh -c 'mkdir -p own-$SLURM_PROCID && cd own-$SLURM_PROCID && exec "$@"' sh "$@"; }
code 0 apart "$probe"
says out '^rank 3 of 4, local 1 of 2, node 1 of 2'
says err 'MUNGE bootstrap at n[1-4], port 2[0-9]*; MUNGE encrypts the key'
[ -z "$(ls -A . own-* | grep stretto)" ] || { echo "a file was written"; ls -A . own-*; exit 1; }
# two jobs at once, each at its own ports or at the next free ones
srun -N 2 -n 2 "$probe" >out1 2>err1 &
other=$!
code 0 srun -N 2 -n 2 "$probe"
wait $other || { cat err1; exit 1; }
# --init names where the server listens; the secret still needs no key
port=$(free_port)
code 0 apart "$probe" --init "tcp://n1:$port"
says err 'MUNGE bootstrap at n[1-4], .* MUNGE encrypts'
code 0 srun -N 2 -n 2 sh -c '[ $SLURM_PROCID = 1 ] || exec "$0" doctor' "$STRETTO"
says out 'at n[1-4], port 2[0-9]* or the next free one; MUNGE encrypts the key'
# without the daemon: the file; the key comes first
export MUNGE_SOCKET=$PWD/none
code 0 srun -N 2 -n 2 sh -c '[ $SLURM_PROCID = 1 ] || exec "$0" doctor' "$STRETTO"
says out 'the file .stretto-[0-9.]* in the working folder'
says out 'no MUNGE: its daemon does not answer'
code 0 srun -N 2 -n 2 "$probe"
! grep -q MUNGE err || { cat err; exit 1; }
code 2 srun -N 2 -n 2 "$probe" --init "tcp://n1:$port"
says err 'needs a key'
