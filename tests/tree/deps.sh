# scripts/deps on pretended machines: nothing installed and no right to install; the same with the right; all there; another
# package manager at work; packages that cannot be had.
set -e
mkdir bin
cat >hold.c <<'END' # a lock as apt takes it; it ends by a signal, or with the test
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (file < 0 || fcntl(file, F_SETLK, &lock) != 0) return 1;
    puts("held"), fflush(stdout);
    return pause();
}
END
${CC:-gcc} hold.c -o hold
pretend() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
# The compiler and pkg-config "work" once the pretended apt-get has run.
pretend gcc 'test -e "$PRETEND/installed"'
pretend pkg-config 'test -e "$PRETEND/installed"'
pretend apt-get 'echo "$*" >>"$PRETEND/apt"; case "$*" in *install*) touch "$PRETEND/installed" ;; esac'
pretend apt-config 'echo "LISTS=$PRETEND/lists/ STATUS=$PRETEND/dpkg/status ARCHIVES=$PRETEND/archives/"'
mkdir lists dpkg archives
pretend sudo 'exit 1'
pretend id 'echo 1000'
PRETEND=$(pwd)
TMPDIR=$PRETEND # where scripts/deps leaves the output of what failed
PATH=$PRETEND/bin:$PATH
export PRETEND PATH TMPDIR
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

# Another package manager works: said once, waited for, then installed, once.
pretend gcc 'test -e "$PRETEND/installed"'
pretend pkg-config 'test -e "$PRETEND/installed"'
until_says() { # FILE WORDS: nothing here depends on how long that takes, but that it ends
    tries=600
    until grep -q "$2" "$1" 2>/dev/null; do
        tries=$((tries - 1))
        test $tries -gt 0 || { echo "$1 never says: $2"; cat "$1"; exit 1; }
        sleep 0.1
    done
}
for file in lists/lock dpkg/lock-frontend dpkg/lock archives/lock; do
    rm -f apt installed held out
    ./hold "$file" >held &
    holder=$!
    until_says held held
    "$deps" install build optional >out 2>&1 &
    job=$!
    until_says out "waits for process $holder (hold), which holds the package manager's lock"
    test ! -e apt
    kill $holder
    wait $job || { cat out; exit 1; }
    test "$(grep -c 'waits for process' out)" = 1
    test "$(grep -c update apt)" = 1 && test "$(grep -c ' install ' apt)" = 1
done
grep -q 'DPkg::Lock::Timeout=600' apt

# It does not end: apt-get is not tried.
rm -f apt installed held
./hold lists/lock >held &
holder=$!
until_says held held
code=0
STRETTO_DEPS_WAIT=1 "$deps" install build optional >out 2>&1 || code=$?
kill $holder
test $code = 2 && test ! -e apt
grep -q "process $holder (hold) still holds the package manager's lock after 1 s" out
grep -q 'run: sudo apt-get update' out

# A lock that apt-get itself did not get, or any other failure: no second try.
for words in 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (dpkg)' 'E: Failed to fetch'; do
    rm -f apt
    pretend apt-get "echo \"\$*\" >>\"\$PRETEND/apt\"; case \"\$*\" in *install*) echo '$words'; exit 100 ;; esac"
    code=0
    "$deps" install build optional >out 2>&1 || code=$?
    test $code = 2 && grep -qF "$words" out
    test "$(grep -c ' install ' apt)" = 1 || { cat apt; exit 1; }
done

# Optional packages that cannot be had: the others are installed, the lists are read once.
rm -f apt
pretend apt-get 'echo "$*" >>"$PRETEND/apt"
case "$*" in
*libucx-dev*) echo "E: Unable to locate package libucx-dev"; exit 100 ;;
*install*) touch "$PRETEND/installed" ;;
esac'
"$deps" install build optional >out 2>&1 || { cat out; exit 1; }
test "$(grep -c update apt)" = 1 && test "$(grep -c ' install ' apt)" = 2
tail -n 1 apt | grep -q libdnnl-dev && ! tail -n 1 apt | grep -q libhdf5-dev
