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
both "$probe" --init "file://$PWD/meeting"
[ ! -e meeting ] || { echo "the meeting's file is still there"; exit 1; }
both "$probe" --init "file://$PWD/meeting" # the same path again
export MASTER_ADDR=localhost MASTER_PORT="$(free_port)"
both "$probe" --init env://
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >key
chmod 600 key
both "$probe" --init "tcp://127.0.0.1:$(free_port)" --key key
# by the environment alone, as torchrun's users write it
RANK=1 WORLD_SIZE=2 "$probe" --init env:// >out1 2>err1 &
RANK=0 WORLD_SIZE=2 code 0 "$probe" --init env://
wait $! || { cat err1; exit 1; }
[ -z "$(ls -A private/stretto)" ] || { ls -A private/stretto; exit 1; }
# what is refused
code 2 "$probe" --rank 0 --world-size 2 --init tcp://198.51.100.1:29500
says err 'needs a key'
says err 'stretto key job.key'
code 2 "$probe" --rank 0 --world-size 2
says err 'init is missing'
chmod 644 key
code 2 "$probe" --rank 0 --world-size 2 --init tcp://127.0.0.1:29500 --key key
says err 'key'
