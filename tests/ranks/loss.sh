# A rank that dies: everybody hears of it, the right one is named, the exit code says so; restarts go on.
. "$ROOT/tests/ranks/lib.sh"
PROBE=die:2 code 4 "$probe" -n 3 --out run
says err 'error: rank 2 ended: killed by signal 9 (Killed), last at step 12 #17 dying'
says err 'its output: run/rank-2.log'
says err 'rank 0 hears: rank 2 .*is lost: killed by signal 9'
says err 'rank 1 hears: rank 2'
PROBE=exit:0:6 code 6 "$probe" -n 2
says err 'rank 0 ended: exit code 6'
PROBE=die-once:1 code 0 "$probe" -n 2 --restarts 1 --out again
says err 'all ranks start again, 1 of 1 times'
says out 'attempt 1'
[ "$(grep -c '^rank 1 pid' again/rank-1.log)" = 2 ] || { cat again/rank-1.log; exit 1; }
PROBE=die:1 code 4 "$probe" -n 2 --restarts 1
[ "$(grep -c 'rank 1 ended: killed' err)" = 2 ] || { cat err; exit 1; }
