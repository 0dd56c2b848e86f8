# Two hosts x two ranks over tcp:// with a key: by address, by --interface, by a host file; no key, no job.
. "$ROOT/tests/hosts/lib.sh"
make_key
pair 0 "$probe" -n 2 --nodes 2 --init "tcp://$net.1:29500" --key key
says out '^rank 0 of 4, local 0 of 2, node 0 of 2, 2 on this machine'
says out1 '^\[rank 3\] rank 3 of 4, local 1 of 2, node 1 of 2, 2 on this machine'
says run/rank-2.log '^rank 2 pid [0-9]* host h2$'
pair 0 "$probe" -n 2 --nodes 2 --init "tcp://$net.1:29500" --key key # the same port at once again
printf '%s slots=2\n%s slots=1\n' "$net.1" "$net.2" >hosts
# each host finds itself in the file by its address
on 2 "$probe" --hostfile hosts --key key >out1 2>err1 &
other=$!
on 1 "$probe" --hostfile hosts --key key >out 2>err || { cat out err err1; exit 1; }
wait $other || { cat err1; exit 1; }
says out1 '^\[rank 2\] rank 2 of 3, local 0 of 1, node 1 of 2'
# refused: no key; a server's address that is another host's; a port that is taken
code 2 on 1 "$probe" -n 2 --nodes 2 --node-rank 0 --init "tcp://$net.1:29500"
says err 'needs a key'
code 2 on 1 "$probe" -n 2 --nodes 2 --node-rank 0 --init "tcp://$net.2:29500" --key key
says err 'is no address of this host'
PROBE=stay on 1 "$probe" --nodes 2 --node-rank 0 --init "tcp://$net.1:29501" --key key --out first >out1 2>err1 &
until grep -qs '^rank 0 pid' first/rank-0.log; do sleep 0.1; done
code 2 on 1 "$probe" --nodes 2 --node-rank 0 --init "tcp://$net.1:29501" --key key
says err "cannot listen on tcp://$net.1:29501"
kill $! 2>/dev/null
wait
