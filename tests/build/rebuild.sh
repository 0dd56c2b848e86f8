# In a small copy of the tree: a second make does nothing, a header rebuilds what includes it, a flag rebuilds all.
set -e
unset MAKEFLAGS MFLAGS MAKELEVEL SAN B CC
mkdir src
cp -r "$ROOT/Makefile" "$ROOT/scripts" "$ROOT/include" .
cp -r "$ROOT/src/base" src/
compiled() { grep -c '^  CC ' out || true; }
make >out
all=$(compiled)
test "$all" -gt 3
make >out
test ! -s out || { cat out; exit 1; }
users=$(grep -l '"base/rng.h"' src/base/*.c | wc -l)
touch src/base/rng.h
make >out
test "$(compiled)" -ge "$users" && test "$(compiled)" -lt "$all" || { cat out; echo "of $all, $users include it"; exit 1; }
make CFLAGS=-O1 >out
test "$(compiled)" = "$all"
make CFLAGS=-O1 >out
test ! -s out
rm src/base/rng.c
make CFLAGS=-O1 >out
! ar t build/libstretto.a | grep -q rng.o || { echo "the archive still holds a file that is gone"; exit 1; }
