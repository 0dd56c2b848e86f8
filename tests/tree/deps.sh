# scripts/deps on pretended machines: nothing installed and no right to install; the same with the right; all there.
set -e
mkdir bin
pretend() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
# The compiler and pkg-config "work" once the pretended apt-get has run.
pretend gcc 'test -e "$PRETEND/installed"'
pretend pkg-config 'test -e "$PRETEND/installed"'
pretend apt-get 'echo "$*" >>"$PRETEND/apt"; case "$*" in *install*) touch "$PRETEND/installed" ;; esac'
pretend sudo 'exit 1'
pretend id 'echo 1000'
PRETEND=$(pwd)
PATH=$PRETEND/bin:$PATH
export PRETEND PATH
deps="$ROOT/scripts/deps"

code=0
"$deps" install build optional >out 2>&1 || code=$?
test $code = 2
test "$(grep -c 'sudo apt-get update && sudo apt-get install -y --no-install-recommends.* libdnnl-dev' out)" = 1
test ! -e apt

pretend id 'echo 0'
code=0
"$deps" check build optional >out 2>&1 || code=$?
test $code = 2 && test ! -e apt

"$deps" install build optional >out 2>&1
grep -q '^stretto: installing .*libdnnl-dev.* libhdf5-dev' out
grep -q update apt && grep -q -- '--no-install-recommends install .*libdnnl-dev' apt

rm apt
"$deps" install build optional >out 2>&1
test ! -s out && test ! -e apt

rm installed
pretend pkg-config 'false'
pretend gcc 'true'
"$deps" check build optional >out 2>&1 # HDF5 alone is missing: a notice, no failure
grep -q 'without the optional libhdf5-dev' out
