# A misspelt suite or case of `make test` is named, and nothing passes for it.
place=$PWD
cd "$ROOT" || exit 1
B=$place/build TESTS='' scripts/test-all tree,nosuite >"$place/out" 2>&1 && { echo "an unknown suite passed"; exit 1; }
grep -q "TESTS=nosuite: no suite is called that; there are: .*tree" "$place/out" || { cat "$place/out"; exit 1; }
TAP=$place/tap CASE=nocase scripts/suite-scripts tests/tree >"$place/out" 2>&1 && { echo "an unknown case passed"; exit 1; }
grep -q "CASE=nocase: no script is called that in tests/tree" "$place/out" || { cat "$place/out"; exit 1; }
