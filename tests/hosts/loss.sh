# A killed rank on one host is reported on the other; a restart on both brings the job back.
. "$ROOT/tests/hosts/lib.sh"
make_key
PROBE=die:3 pair 4 "$probe" -n 2 --nodes 2 --init "tcp://$net.1:29500" --key key
says err1 'rank 3 ended: killed by signal 9'
says err 'rank 0 hears: rank 3 (host h2) is lost'
PROBE=die-once:1 pair 0 "$probe" -n 2 --nodes 2 --restarts 1 --init "tcp://$net.1:29500" --key key
says out1 'attempt 1'
