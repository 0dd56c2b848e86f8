# docs/verify.md lists the rules of src/program/rule.def, by number and sentence; numbers are 1, 2, ... without a gap.
set -u
cd "$ROOT"
sed -n 's/^RULE(\([0-9]*\), [A-Z]*, "\(.*\)")$/| \1 | \2 |/p' src/program/rule.def >"$OLDPWD/rules"
[ "$(wc -l <"$OLDPWD/rules")" -ge 20 ] || { echo "rule.def has no rows that this script can read"; exit 1; }
grep '^| [0-9]* |' docs/verify.md >"$OLDPWD/listed"
diff "$OLDPWD/rules" "$OLDPWD/listed" || { echo "docs/verify.md and rule.def differ"; exit 1; }
cut -d' ' -f2 "$OLDPWD/rules" >"$OLDPWD/numbers"
seq "$(wc -l <"$OLDPWD/rules")" | cmp -s - "$OLDPWD/numbers" || { echo "the rules are not numbered one by one"; exit 1; }
