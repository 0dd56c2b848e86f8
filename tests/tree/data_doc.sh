# docs/data.md names every data set of src/data/dataset.def, and every policy of src/data/augment.def.
set -u
cd "$ROOT"
{
    sed -n 's/^DATASET(\([a-z0-9_]*\))$/\1/p' src/data/dataset.def | tr _ -
    sed -n 's/^AUGMENT([A-Z_]*, *"\([a-z-]*\)".*/\1/p' src/data/augment.def
} >"$OLDPWD/names"
[ "$(wc -l <"$OLDPWD/names")" -ge 10 ] || { echo "the tables have no rows that this script can read"; exit 1; }
failed=0
while read -r name; do
    grep -q "^|.*\`$name[\`:\[]" docs/data.md || { echo "docs/data.md: no row has \`$name\`"; failed=1; }
done <"$OLDPWD/names"
exit $failed
