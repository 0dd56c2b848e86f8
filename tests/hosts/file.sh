# file:// on a shared file system: the secret travels in the file; --interface chooses where the server listens.
. "$ROOT/tests/hosts/lib.sh"
pair 0 "$probe" -n 2 --nodes 2 --init "file://$PWD/rendezvous"
says out1 '^\[rank 2\] rank 2 of 4'
[ ! -e rendezvous ] || { echo "the file is left"; exit 1; }
for rule in net0 '^lo' "$net.0/24" =net0; do
    pair 0 "$probe" --nodes 2 -n 1 --init "file://$PWD/rendezvous" --interface "$rule"
done
code 2 on 1 "$probe" -n 2 --nodes 2 --node-rank 0 --init "file://$PWD/rendezvous" --interface ib
says err 'no address of this host fits'
# by hand, one rank on each of three hosts
for rank in 1 2; do
    on $((rank + 1)) "$probe" --rank $rank --world-size 3 --init "file://$PWD/rendezvous" >out$rank 2>err$rank &
done
on 1 "$probe" --rank 0 --world-size 3 --init "file://$PWD/rendezvous" >out 2>err || { cat err; exit 1; }
wait
says out2 '^rank 2 of 3'
