# The option table of docs/usage.md is the one the program prints; every key a run writes is explained there.
set -u
failed=0
"$STRETTO" help --markdown >printed || exit 1
sed -n '/^<!-- options -->$/,/^<!-- end -->$/p' "$ROOT/docs/usage.md" | sed '1d;$d' >written
diff written printed || { echo "docs/usage.md is out of date: run scripts/usage-table"; failed=1; }

# keys FILE: what its rows name, members of a group as group{...,member,...}
keys() { sed -n 's/^\(FIELD\|METRIC\)(\([A-Z]*, \)\{0,1\}\([a-z0-9_]*\).*/\3/p; s/^GROUP(\(.*\))/\1/p' "$1"; }
for key in $(keys "$ROOT/src/record/summary.def") $(keys "$ROOT/src/record/metrics.def"); do
    grep -q "\`$key\(\[\]\|{[a-z0-9_,]*}\)\{0,1\}\`" "$ROOT/docs/usage.md" || { echo "docs/usage.md does not explain $key"; failed=1; }
done
members=$(sed -n 's/^MEMBER(\([a-z_]*\), \([a-z0-9_]*\).*/\1 \2/p' "$ROOT/src/record/summary.def")
echo "$members" | while read -r group member; do
    grep -q "\`$group{\([a-z0-9_]*,\)*$member\(,[a-z0-9_]*\)*}\`" "$ROOT/docs/usage.md" || echo "docs/usage.md does not explain $group.$member"
done >missing
cat missing
[ ! -s missing ] || failed=1
exit $failed
