# --rank and --world-size by hand: tcp:// on loopback, env://, file://; nothing is left behind.
. "$ROOT/tests/ranks/lib.sh"
XDG_RUNTIME_DIR=$PWD/private
mkdir -m 700 "$XDG_RUNTIME_DIR"
export XDG_RUNTIME_DIR
# both COMMAND...: as rank 1 beside, as rank 0 here
both() {
    "$@" --rank 1 --world-size 2 >out1 2>err1 &
    other=$!
    code 0 "$@" --rank 0 --world-size 2
    wait $other || { echo "rank 1 failed"; cat out1 err1; exit 1; }
    says out '^rank 0 of 2'
    says out1 '^rank 1 of 2'
}
both "$probe" --init "tcp://127.0.0.1:$(free_port)"
both "$probe" --init "file://$PWD/rendezvous"
[ ! -e rendezvous ] || { echo "the rendezvous file is still there"; exit 1; }
both "$probe" --init "file://$PWD/rendezvous" # the same path again
# ranks of one host: the server listens on no network, not even where --interface names one
for interface in '' "--interface ^nowhere"; do
    rm -f out0 out1 # what an earlier pair said
    for rank in 0 1; do
        PROBE=stay "$probe" --init "file://$PWD/rendezvous" --rank $rank --world-size 2 $interface >out$rank 2>err$rank &
        eval "job$rank=$!"
    done
    await 300 grep -q '^rank 0 of 2' out0
    says rendezvous '^address ipc://@'
    for fd in /proc/$job0/fd/*; do
        socket=$(readlink "$fd" | sed -n 's/^socket:\[\(.*\)\]$/\1/p')
        [ -n "$socket" ] || continue
        ! cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q " $socket " || { echo "rank 0 is on a network"; exit 1; }
    done
    kill $job0 $job1
    wait $job0 $job1
done
export MASTER_ADDR=localhost MASTER_PORT="$(free_port)"
both "$probe" --init env://
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >key
chmod 600 key
both "$probe" --init "tcp://127.0.0.1:$(free_port)" --key key
# by the environment alone, as torchrun's users write it
RANK=1 WORLD_SIZE=2 "$probe" --init env:// >out1 2>err1 &
RANK=0 WORLD_SIZE=2 code 0 "$probe" --init env://
wait $! || { cat err1; exit 1; }
# the same without --init, which these four variables replace; and with --rank and --world-size
RANK=1 WORLD_SIZE=2 "$probe" >out1 2>err1 &
RANK=0 WORLD_SIZE=2 code 0 "$probe"
wait $! || { cat err1; exit 1; }
says out '^rank 0 of 2'
says out1 '^rank 1 of 2'
both "$probe"
[ -z "$(ls -A private/stretto)" ] || { ls -A private/stretto; exit 1; }
# one rank was told another world: however they meet, all end, and all name a rank and both numbers; nobody waits for the join limit
odd_world() { # ODD WORLD INIT...
    odd=$1 other=$2
    shift 2
    for rank in 0 1 2; do
        world=3
        [ $rank != "$odd" ] || world=$other
        timeout 50 "$probe" --rank $rank --world-size $world "$@" >out$rank 2>err$rank &
        eval "job$rank=$!"
    done
    for rank in 0 1 2; do
        eval "wait \$job$rank"
        got=$?
        [ $got = 2 ] || { echo "rank $rank of an odd world at $odd: exit code $got ($*)"; cat err?; exit 1; }
        says err$rank "$wanted"
    done
}
for row in 2:4 0:4 0:2; do
    odd=${row%:*} other=${row#*:}
    wanted="rank 2 (host .*) was started for a world of 4 ranks, the server for 3"
    [ $odd = 2 ] || wanted="rank [12] (host .*) was started for a world of 3 ranks, the server for $other"
    odd_world $odd $other --init "file://$PWD/rendezvous"
    odd_world $odd $other --init "tcp://127.0.0.1:$(free_port)"
    odd_world $odd $other --init "tcp://127.0.0.1:$(free_port)" --key key
done
# what is refused
code 2 "$probe" --rank 0 --world-size 2 --init tcp://198.51.100.1:29500
says err 'needs a key'
says err 'stretto key job.key'
MASTER_ADDR=198.51.100.1 RANK=0 WORLD_SIZE=2 code 2 "$probe"
says err 'MASTER_ADDR 198.51.100.1, MASTER_PORT [0-9]* between hosts needs a key'
MASTER_ADDR= RANK=0 WORLD_SIZE=2 code 2 "$probe"
says err 'MASTER_PORT is set but MASTER_ADDR is not'
unset MASTER_ADDR MASTER_PORT
code 2 "$probe" --rank 0 --world-size 2
says err 'init is missing'
says err 'or MASTER_ADDR and MASTER_PORT'
MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 code 2 "$probe" --nodes 2 --node-rank 0
says err '--init env:// takes MASTER_ADDR and MASTER_PORT'
chmod 644 key
code 2 "$probe" --rank 0 --world-size 2 --init tcp://127.0.0.1:29500 --key key
says err 'key'
