# Limits of the shell (ulimit): each ends in a message that names it and in a documented exit code; nothing aborts,
# crashes or is called a bug, also where a library would.
. "$ROOT/tests/ranks/lib.sh"
mlp="--model mlp --threads 2 --batch 24 --steps 3 --log-every 1 --overwrite --out run"
# under LIMIT CODES OPTION...: trains with that limit; ends with one of the codes.
under() {
    limit=$1 codes=$2
    shift 2
    (ulimit $limit && exec "$STRETTO" train $mlp "$@") >out 2>err
    got=$?
    case " $codes " in
    *" $got "*) ;;
    *) echo "ulimit $limit, $*: exit code $got, not one of $codes"; cat err; exit 1 ;;
    esac
}
for files in 8 16 24; do
    under "-n $files" 2 -n 3
    says err "the limit of open files is $files; raise it with ulimit -n"
done
under '-n 8' 2
says err 'the limit of open files is 8; raise it with ulimit -n$' # there are no ranks to leave out
under '-S -n 8' 0
under '-S -n 8' 0 -n 3 # raised by itself as far as the hard limit allows

# Files, and memory that is shared: it counts as a file.
under '-f 8' 3
says err 'File too large'
under '-f 32' 2 -n 2
says err 'a shared heap of .*: File too large'
says err 'raise it with ulimit -f'

# Address space. 127: the loader's, before the program runs; 1: libgomp's, as it is loaded. The sanitizers take terabytes
# of it.
if [ -z "$SAN" ]; then
    seen=
    for kib in 76000 80000 90000 96000 100000 104000 108000 112000 140000; do
        for ranks in 1 2; do
            under "-v $kib" '0 1 2 5 127' -n $ranks
            [ $got != 1 ] || grep -q '^libgomp: Out of memory' err || { cat err; exit 1; }
            ! grep -q 'the limit of address space is' err || seen=yes
        done
    done
    [ "$seen" = yes ] || { echo "no run said that the limit of address space was reached"; exit 1; }
fi

# Processes and threads are counted for a user: one who has none. A sanitizer's search for leaks needs a thread itself.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
AS="setpriv --reuid 61234 --regid 61234 --clear-groups"
rm -rf run
chmod 777 .
$AS "$STRETTO" --version >version 2>&1 && $AS sh -c 'echo x >written' 2>/dev/null ||
    { echo "limits of processes: not tried, another user cannot run this build"; exit 0; }
for threads in 1 3 5 6 7 8 9 10 12 14 16; do
    mlp="--model mlp --threads 2 --batch 24 --steps 3 --overwrite --out other"
    prlimit --nproc=$threads $AS "$STRETTO" train $mlp -n 2 >out 2>err
    got=$?
    [ $got = 2 ] || [ $got = 0 ] || { echo "ulimit -u $threads: exit code $got"; cat err; exit 1; }
    [ $got = 0 ] || says err 'the system gives no more processes and threads'
done
