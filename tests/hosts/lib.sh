# Shared by the tests on several hosts. Not a test itself.
. "$ROOT/tests/ranks/lib.sh"
net=$HOSTS_NET
export UCX_TLS=tcp,self # these hosts share a kernel, and UCX would see it
# on I COMMAND...: on host I, whose name is hI
on() {
    host=$1
    shift
    ip netns exec "$HOSTS_PREFIX-$host" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "h$host" "$@"
}
make_key() {
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >key
    chmod 600 key
}
# pair WANTED COMMAND...: host 2 as node 1 beside, host 1 as node 0 here; NODE in a word is the node's number
pair() {
    wanted=$1
    shift
    on 2 "$@" --node-rank 1 --out run >out1 2>err1 &
    other=$!
    on 1 "$@" --node-rank 0 --out run >out 2>err
    got=$?
    wait $other
    got1=$?
    [ "$got $got1" = "$wanted $wanted" ] || { echo "exit codes $got $got1, not $wanted"; cat out err out1 err1; exit 1; }
}
