# The option table of docs/usage.md is the one the program prints.
set -u
"$STRETTO" help --markdown >printed || exit 1
sed -n '/^<!-- options -->$/,/^<!-- end -->$/p' "$ROOT/docs/usage.md" | sed '1d;$d' >written
diff written printed && exit 0
echo "docs/usage.md is out of date: run scripts/usage-table"
exit 1
