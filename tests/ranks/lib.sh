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
# a port that is free now, below the range the system hands out. Tests run beside one another, with numbers of processes that
# follow closely: their ports lie apart, so that one which moves on from a port in use does not take its neighbour's.
free_port() {
    port=$((12000 + $$ * 37 % 8000))
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
# --- training on ranks ---
# What a test trains: small, with checkpoints and evaluations on the way. Nothing may last for ever.
small="--model mlp --threads 1 --batch 24 --steps 20 --save-every 5 --eval-every 10 --log-every 1"
train() { timeout -k 5 "${LIMIT:-120}" "$STRETTO" train "$@"; }
# whole NAME OPTION...: the run that nothing disturbs, and in $want the hash it ends with.
whole() {
    name=$1
    shift
    train "$@" --out "$name" >whole.out || { echo "the undisturbed run failed"; exit 1; }
    want=$(hash "$name")
    [ -n "$want" ] || { echo "no param_hash in $name/summary.json"; exit 1; }
}
# ends_as RUN HASH
ends_as() {
    [ "$(hash "$1")" = "$2" ] || { echo "$1 ends with $(hash "$1"), not $2"; exit 1; }
}
# Process of a rank by its log's newest first line; all of them.
pid_of() { sed -n "s/^rank $2 pid \([0-9]*\) .*/\1/p" "$1/rank-$2.log" 2>/dev/null | tail -n 1; }
pids_of() { sed -n 's/^rank [0-9]* pid \([0-9]*\) .*/\1/p' "$1"/rank-*.log; }
alive() { # a zombie that waits for its parent is none
    state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
    [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]
}
nobody_left() {
    for pid in $(pids_of "$1"); do
        ! alive "$pid" || { echo "process $pid of $1 is still there"; exit 1; }
    done
}
# await TENTHS COMMAND...: until the command succeeds.
await() {
    tries=$1
    shift
    until "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "waited in vain for: $*"; cat err out 2>/dev/null; exit 1; }
        sleep 0.1
    done
}
stands() { [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$(pid_of "$1" "$2")/status")" = T ]; }
