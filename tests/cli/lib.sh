# Shared by the tests of the command. Not a test itself: suite-scripts passes over lib.sh.
set -u
failed=0
# say WORDS: what is wrong. The test goes on, and ends with `exit $failed`.
say() { echo "$*"; failed=1; }
# ends CODE ARGUMENT...: `stretto ARGUMENT...` has this exit code; its output goes to "out" and "err".
ends() {
    code=$1
    shift
    "$STRETTO" "$@" >out 2>err
    got=$?
    [ "$got" = "$code" ] || say "$*: exit $got, not $code: $(cat err)"
}
# answers CODE PART ARGUMENT...: the same, and standard error has this part ("": whatever it has).
answers() {
    code=$1 part=$2
    shift 2
    ends "$code" "$@"
    [ -z "$part" ] || grep -qF -- "$part" err || say "$*: no '$part' in: $(cat err)"
}
# tells CODE PART ARGUMENT...: the same of both streams together, which go to "said" and nowhere else.
tells() {
    code=$1 part=$2
    shift 2
    ends "$code" "$@"
    cat out err >said
    rm out err
    grep -qF -- "$part" said || say "$*: no '$part' in: $(cat said)"
}
