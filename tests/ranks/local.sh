# -n starts ranks that find one another; their output is one, and kept.
. "$ROOT/tests/ranks/lib.sh"
code 0 "$probe" -n 4 --out run
says out '^rank 0 of 4, local 0 of 4, node 0 of 1, 4 on this machine, attempt 0, stretto'
says out '^\[rank 3\] rank 3 of 4, local 3 of 4, node 0 of 1, 4 on this machine'
for rank in 0 1 2 3; do
    head -n 1 run/rank-$rank.log | grep -Eq "^rank $rank pid [0-9]+ host " || { cat run/rank-$rank.log; exit 1; }
done
# many on few cores
code 0 "$probe" -n 32
says out '^\[rank 31\] rank 31 of 32'
