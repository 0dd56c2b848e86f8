# make help names every benchmark and test of the Makefile, in lines that a terminal of 80 columns shows.
set -u
failed=0
"$ROOT/scripts/help" >out
targets=$(sed -n 's/^\(\(bench\|test\)-[a-z]*\)[ :].*/\1/p' "$ROOT/Makefile" | sort -u)
[ "$(echo "$targets" | wc -l)" -gt 10 ] || { echo "few targets: $targets"; exit 1; }
for target in $targets; do
    grep -q "^make $target " out || { echo "make help does not name $target"; failed=1; }
done
awk 'length > 80 { print "wide: " $0; wide = 1 } END { exit wide }' out || failed=1
exit $failed
