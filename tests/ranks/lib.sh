# Shared by the tests of several processes. Not a test itself.
set -u
probe=$ROOT/$B/rank-probe
unset STRETTO_KEY PROBE 2>/dev/null
# code WANTED COMMAND...: the exit code must be that one; output goes to "out" and "err".
code() {
    wanted=$1
    shift
    "$@" >out 2>err
    got=$?
    [ "$got" = "$wanted" ] || { echo "exit code $got, not $wanted: $*"; cat out err; exit 1; }
}
# says FILE WORDS
says() { grep -q -e "$2" "$1" || { echo "$1 does not say: $2"; cat "$1"; exit 1; }; }
# a port that is free now, below the range the system hands out; tests run beside one another
free_port() {
    port=$((12000 + $$ % 8000))
    while grep -qi ":$(printf '%04X' "$port") " /proc/net/tcp; do port=$((port + 1)); done
    echo "$port"
}
# built PART: whether this build has it (UCX, MPI)
built() { "$STRETTO" doctor | grep -q "optional parts .*$1 built"; }
need() { built "$1" || { echo "this build has no $1"; exit 77; }; }
# hash FOLDER: of the parameters a run ended with
hash() { sed -n 's/^ *"param_hash": "\([^"]*\)".*/\1/p' "$1/summary.json"; }
# same FOLDER OTHER: the same parameters
same() { [ -n "$(hash "$1")" ] && [ "$(hash "$1")" = "$(hash "$2")" ] || { echo "$1 $(hash "$1"), $2 $(hash "$2")"; exit 1; }; }
