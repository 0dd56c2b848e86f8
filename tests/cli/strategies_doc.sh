# docs/strategies.md names every strategy, in the table of families and in that of names elsewhere; its commands are real.
. "$ROOT/tests/cli/lib.sh"
page=$ROOT/docs/strategies.md
sed -n 's/^STRATEGY("\([^"]*\)".*/\1/p' "$ROOT/src/plan/strategy.def" >strategies
[ "$(wc -l <strategies)" -gt 15 ] || say "few strategies: $(cat strategies)"
sed -n '/^## The families/,/^## Names/p' "$page" >families
sed -n '/^## Names/,/^## Trying/p' "$page" >names
while read -r name; do
    grep -q "^| [^|]*|[^|]*\`$name\`" families || say "$page: no family has $name"
    [ "$name" = single ] || grep -q "^| [^|]*\`$name\`" names || say "$page: $name has no row of names elsewhere"
done <strategies
# Others' words in back quotes are not ours; ours are strategies.
sed -n 's/^| [^|]*| \([^|]*\)|.*/\1/p' families | grep -o '`[a-z0-9-]*`' | tr -d '`' | grep -v '^--' | sort -u >said
while read -r name; do grep -qFx -e "$name" strategies || say "$page: $name is no strategy"; done <said

# The commands: what is explained and checked as it stands, what is trained in one step, what is in a table as options of explain.
sed -n 's/^stretto //p' "$page" >commands
[ "$(wc -l <commands)" -ge 8 ] || say "few commands: $(cat commands)"
while read -r words; do
    case $words in
    train*) ends 0 $words --quiet --eval-every never --save-every never ;;
    *) ends 0 $words ;;
    esac
done <commands
grep -qx '[0-9]* tensors, equal to the last bit' out || say "compare: $(cat out)"
sed -n 's/^| `\(--strategy [^`]*\)` |.*/\1/p' "$page" >options
[ "$(wc -l <options)" -ge 10 ] || say "few options: $(cat options)"
while read -r words; do ends 0 explain --model vit-base --data synthetic --memory-limit 8G $words; done <options
exit $failed
