# What the first screen of the README shows is what the program does: the drawing, the instructions, the comparison and its commands.
. "$ROOT/tests/cli/lib.sh"
readme=$ROOT/README.md

# The pictures of the documents are drawn anew by make pictures.
"$ROOT/scripts/pictures" drawn || exit 1
for picture in "$ROOT"/docs/pictures/*.svg; do
    cmp "$picture" "drawn/${picture##*/}" || say "$picture is out of date: make pictures"
    grep -q "pictures/${picture##*/}" "$readme" "$ROOT"/docs/*.md || say "no page shows ${picture##*/}"
done
[ "$(ls drawn | wc -l)" = "$(ls "$ROOT/docs/pictures" | wc -l)" ] || say "pictures that are not there: $(ls drawn)"
cmp -s drawn/1f1b-light.svg drawn/1f1b-dark.svg && say "light and dark are the same picture"
# Viewers differ in what they make of @media: each picture has its colours without it. A figure has its unit.
grep -l '@media' drawn/*.svg && say "colours that depend on the viewer"
grep -q '>33 units<' drawn/1f1b-dark.svg || say "the step has no unit: $(grep 'class="value"' drawn/1f1b-dark.svg)"

# The lines of the program, without what is said about them.
"$STRETTO" explain --strategy 1f1b --stages 4 --micro-batches 8 --device ref --show program >program || exit 1
sed -n 's/^\(#[0-9]* r[0-9]* [^ ].*\)/\1/p' "$readme" | sed 's/   .*//' >lines
[ "$(wc -l <lines)" = 8 ] || say "these are not the eight lines of a program: $(cat lines)"
while read -r line; do grep -qFx "$line" program || say "no line of the program: $line"; done <lines
grep -q 'bubble 27.3%' "$readme" && grep -q '>27.3%<' drawn/1f1b-light.svg || say "the bubble of the picture is not what the README says"

# The three commands, as they stand, and what the last one prints.
sed -n 's/^\$ build\/stretto //p' "$readme" >commands
[ "$(wc -l <commands)" = 3 ] || say "these are not the three commands: $(cat commands)"
while read -r words; do "$STRETTO" $words >out 2>err </dev/null || say "$words: $(cat err)"; done <commands
grep -q 'equal to the last bit$' out || say "compare: $(cat out)"
grep -qFx "$(cat out)" "$readme" || say "the README does not show: $(cat out)"
exit $failed
