# The manual page: no warning of man (groff) or mandoc, and every command, option, model, data set and exit code of the
# program is in it.
. "$ROOT/tests/cli/lib.sh"
"$STRETTO" help --man >stretto.1 || exit 1

# As text without overstrikes and without lines broken: what a reader sees.
readers=0
if command -v man >/dev/null && command -v groff >/dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=1000 man --warnings -l stretto.1 2>warnings | cat >text || say "man fails"
    [ ! -s warnings ] || say "man warns: $(cat warnings)"
    readers=$((readers + 1))
fi
if command -v mandoc >/dev/null; then
    # The page has no date: it is made when it is installed, and the same program must make the same bytes.
    mandoc -T lint -W warning stretto.1 | grep -v 'missing date' >warnings
    [ ! -s warnings ] || say "mandoc warns: $(cat warnings)"
    [ -s text ] || mandoc -T utf8 -O width=1000 stretto.1 | sed 's/.\x08//g' >text
    readers=$((readers + 1))
fi
[ $readers != 0 ] || { echo "neither man with groff nor mandoc"; exit 77; }

has() { grep -q -- "$1" text || say "the manual page does not have: $1"; }
for name in $("$STRETTO" help --markdown | sed -n 's/.*`\(-n, \|-h, \)\{0,1\}--\([a-z0-9-]*\).*/\2/p'); do has "^ .*--$name\( \|$\)"; done
for name in $("$STRETTO" --help | sed -n 's/^  \([a-z]*\).*/\1/p'); do has "^       $name\( \|$\)"; done
# Names of models and data sets are what train --help lists under these headings.
for name in $("$STRETTO" train --help | awk '/^models$|^data sets$/ { on = 1; next } on && /^  [a-z]/ { sub(/[:[].*/, "", $1); print $1 }'); do
    has "^       $name"
done
for code in 0 1 2 3 4 5 6 7 '128 + n'; do has "^       $code\( \|$\)"; done
for part in NAME SYNOPSIS COMMANDS OPTIONS MODELS 'DATA SETS' 'EXIT STATUS' EXAMPLES FILES 'SEE ALSO'; do has "^$part\$"; done
has 'samples in a step, over all replicas and micro-batches (64)'
for page in $(grep -o 'docs/[a-z]*\.md' text | sort -u); do [ -e "$ROOT/$page" ] || say "the manual page names $page"; done
exit $failed
