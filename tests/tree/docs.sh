# The documents speak of files that exist; and the check can fail.
set -e
echo 'see `src/nothing.c` and [this](missing.md), [part](page.md#there) and [part](page.md#gone), <img src="missing.svg">' >bad.md
printf '# A page\n\n## There?\n' >page.md
mkdir -p src/base
echo '/* See base/gone.h, base/here.h. */' >src/base/here.h
if "$ROOT/scripts/docs-check" . >out; then echo "did not fail"; exit 1; fi
grep -q 'no src/nothing.c' out && grep -q 'missing.md leads nowhere' out && grep -q 'missing.svg leads nowhere' out
grep -q 'page.md has no heading #gone' out && ! grep -q '#there' out
grep -q 'src/base/here.h:1: there is no base/gone.h' out && ! grep -q 'no base/here.h' out
"$ROOT/scripts/docs-check" "$ROOT"
# The tour of the README passes every folder of the source.
cd "$ROOT"
for folder in src/*/; do
    grep -q "^| \`${folder%/}\` |" README.md || { echo "README.md: the tour leaves out ${folder%/}"; exit 1; }
done
# And it leads to every page.
for page in docs/*.md; do
    grep -q "]($page)" README.md || { echo "README.md: nothing leads to $page"; exit 1; }
done
