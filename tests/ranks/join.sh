# Ranks that do not come are named; ranks that disagree are told where.
. "$ROOT/tests/ranks/lib.sh"
PROBE=away:1 code 4 "$probe" -n 3 --join-limit 2 --grace 1
says err 'rank.* 1'
PROBE=facts:1 code 2 "$probe" -n 3
says err 'model'
says err 'lenet'
