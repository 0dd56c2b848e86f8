# Two launchers that play two nodes, by tcp:// with a key, by file://, by host files; a loss on one ends the other.
. "$ROOT/tests/ranks/lib.sh"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >key
chmod 600 key
# pair WANTED COMMAND...: node 1 beside, node 0 here
pair() {
    wanted=$1
    shift
    "$@" --node-rank 1 --out run >out1 2>err1 &
    other=$!
    code "$wanted" "$@" --node-rank 0 --out run
    wait $other
    got=$?
    [ "$got" = "$wanted" ] || { echo "node 1: exit code $got, not $wanted"; cat out1 err1; exit 1; }
}
pair 0 "$probe" -n 2 --nodes 2 --init "tcp://127.0.0.1:$(free_port)" --key key
says out '^rank 0 of 4, local 0 of 2, node 0 of 2'
says out1 '^\[rank 2\] rank 2 of 4, local 0 of 2, node 1 of 2'
says run/rank-3.log '^rank 3 pid'
pair 0 "$probe" -n 2 --nodes 2 --init "file://$PWD/rendezvous"
printf 'a slots=1\nb slots=3\n' >hosts
pair 0 "$probe" --hostfile hosts --init "file://$PWD/rendezvous"
says out1 '^\[rank 3\] rank 3 of 4, local 2 of 3, node 1 of 2'
printf 'nodes:\n- {host: a, workers: 2}\n- {host: b, workers: 1, chief: true}\n' >nodes.yml
pair 0 "$probe" --nodes-file nodes.yml --init "file://$PWD/rendezvous"
says out1 '^\[rank 2\] rank 2 of 3, local 0 of 1, node 1 of 2'
# a loss on node 1: its ranks are named there, all end with 4 on both; a restart brings all back
PROBE=die:3 pair 4 "$probe" -n 2 --nodes 2 --init "file://$PWD/rendezvous"
says err1 'rank 3 ended: killed by signal 9'
says err 'hears: rank 3'
PROBE=die-once:3 pair 0 "$probe" -n 2 --nodes 2 --restarts 1 --init "tcp://127.0.0.1:$(free_port)" --key key
says out 'attempt 1'
says out1 'attempt 1'
code 2 "$probe" -n 2 --nodes 2 --node-rank 0
says err 'needs --init'
code 2 "$probe" -n 2 --nodes 2 --init file:///x
says err 'needs --node-rank'
code 2 "$probe" --hostfile hosts
says err 'names no host that is this one'
