# Every test is in `make test` or in `make test-long`, in one of them only; every row of tests/long names a test.
set -e
place=$PWD
cd "$ROOT"
export FUZZ="${FUZZ:-$(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_\(.*\)\.c/\1/' | tr '\n' ' ')}"
sanitizer=${SAN:-}
unset CASE FILTER SAN # a sanitizer's build has fewer cells of the equality matrix, and leaves out tests that it cannot run
complain() {
    echo "$1"
    exit 1
}
there() { # SUITE: whether what lists its tests is built; `make test TESTS=tree` alone does not build it
    case $1 in
    unit) [ -x "$B/unit-tests" ] ;;
    *) true ;;
    esac
}
list() { PART=$1 LIST=1 $command | sort; }

grep -v '^#' tests/suites >"$place/suites"
while read -r name needs command; do
    there "$name" || continue
    list all >"$place/all"
    list short >"$place/short"
    list long >"$place/long"
    [ -s "$place/all" ] || complain "$name lists no tests"
    [ -z "$(uniq -d "$place/all")" ] || complain "$name: two tests are called $(uniq -d "$place/all")"
    sort "$place/short" "$place/long" | cmp - "$place/all" || complain "$name: the tests of both parts are not all tests"
    case $name in
    libfuzzer) ;; # it builds for minutes; fuzz has the same targets
    *) [ -s "$place/short" ] || complain "$name: no test of this kind is in make test" ;;
    esac
    # A row without a test is a mistake, such as the old name of one.
    sed -n "s/^$name  *//p" tests/long >"$place/rows"
    while read -r row; do
        echo "$name $row" >"$place/table"
        [ -n "$(TESTS_LONG=$place/table list long)" ] || complain "tests/long: no test of $name is called $row"
    done <"$place/rows"
done <"$place/suites"
grep -v '^#' tests/long | while read -r name row; do
    grep -q "^$name " tests/suites || complain "tests/long: no suite is called $name"
done

# The lists have all that is there: a script each, a fuzz target each, and the tests that the sources spell out.
for folder in tree train ranks cli build; do
    ls tests/$folder/*.sh | sed "s|.*/|$folder::|; s|\.sh$||" | grep -vx "$folder::lib" | sort >"$place/files"
    PART=all LIST=1 scripts/suite-scripts tests/$folder | sort | cmp - "$place/files" || complain "tests/$folder: scripts that no list has"
done
if there unit && [ -z "$sanitizer" ]; then
    grep -rhoE '^Test\([a-z0-9_]+, *[a-z0-9_]+' tests/unit tests/faults | sed 's/Test(\(.*\), */\1::/' | sort >"$place/written"
    [ "$(wc -l <"$place/written")" -gt 1000 ] || complain "tests of the sources were not found"
    PART=all LIST=1 scripts/suite-unit | sort | comm -13 - "$place/written" >"$place/missing"
    [ ! -s "$place/missing" ] || complain "unit tests that no list has: $(cat "$place/missing")"
fi

# A suite that leaves out a test, or runs one that is not of its part, fails; a suite without tests of a part is left out.
mkdir -p "$place/tests" "$place/scripts"
cp scripts/test-all scripts/part scripts/sanitizers "$place/scripts/"
cd "$place"
printf 'few - sh few.sh\nmany - sh many.sh\n' >tests/suites
echo 'many many::b' >tests/long
printf 'names() { printf "many::a\\nmany::b\\n" | scripts/part many; }\n[ -n "$LIST" ] && { names; exit; }\n%s\n' \
    'for n in $(names); do echo "ok - $n (0.1s)"; done >$TAP' >many.sh
printf 'names() { echo few::a | scripts/part few; }\n[ -n "$LIST" ] && { names; exit; }\n%s\n' \
    'for n in $(names); do echo "ok - $n # SKIP no reason"; done >$TAP' >few.sh
counts() {
    B=build PART=$1 LIST= sh scripts/test-all >out 2>&1 || true
    tail -n 1 out
}
[ "$(counts short)" = "1 passed, 0 failed, 1 skipped" ] || complain "short: $(cat out)"
[ "$(counts long)" = "1 passed, 0 failed, 0 skipped" ] || complain "long: $(cat out)"
[ "$(counts all)" = "2 passed, 0 failed, 1 skipped" ] || complain "all: $(cat out)"
sed -i 's/in $(names); do/in many::a; do/' many.sh
[ "$(counts all)" = "1 passed, 1 failed, 1 skipped" ] || complain "a test was left out: $(cat out)"
grep -q 'listed, but did not run: many::b' out || complain "$(cat out)"
sed -i 's/in many::a; do/in many::a many::b; do/' many.sh
[ "$(counts short)" = "2 passed, 1 failed, 1 skipped" ] || complain "a test too many: $(cat out)"
grep -q 'ran, but is not listed: many::b' out || complain "$(cat out)"
