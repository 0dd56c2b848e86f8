# docs/program.md lists the instructions of src/program/instr.def: names, operands and what they do.
set -u
cd "$ROOT"
sed -n 's/^INSTR(\([A-Z_]*\), "\([a-z?]*\)", .*, "\([^"]*\)")$/\1|\2|\3/p' src/program/instr.def >"$OLDPWD/rows"
[ "$(wc -l <"$OLDPWD/rows")" -ge 10 ] || { echo "instr.def has no rows that this script can read"; exit 1; }
failed=0
while IFS='|' read -r name operands doc; do
    spaced=$(echo "$operands" | sed 's/?\(.\)/[\1]/g; s/\(\[.\]\|.\)/\1 /g; s/ *$//')
    row="| \`$name\` | ${spaced}${spaced:+ }| $doc |"
    grep -qF -- "$row" docs/program.md || { echo "docs/program.md: no row: $row"; failed=1; }
done <"$OLDPWD/rows"
rows=$(grep -c '^| `[A-Z_]*` |' docs/program.md)
[ "$rows" = "$(wc -l <"$OLDPWD/rows")" ] || { echo "docs/program.md: $rows instructions"; failed=1; }
exit $failed
