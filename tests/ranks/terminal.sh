# On a terminal rank 0 sees a terminal of the same width, and other ranks' lines come in between, tagged.
. "$ROOT/tests/ranks/lib.sh"
command -v script >/dev/null || { echo "script (bsdutils) is not installed"; exit 77; }
script -q -c true /dev/null >/dev/null 2>&1 </dev/null || { echo "no pseudo-terminals here (devpts)"; exit 77; }
script -q -e -c "stty cols 97 rows 31; PROBE=terminal $probe -n 2 --out run" typescript >/dev/null </dev/null ||
    { cat typescript; exit 1; }
says typescript 'rank 0: a terminal of 97 columns'
says typescript '^\[rank 1\] rank 1: no terminal'
says run/rank-0.log '^rank 0: a terminal of 97 columns'
! grep -q 'half a bar' run/rank-0.log || { cat run/rank-0.log; exit 1; }
