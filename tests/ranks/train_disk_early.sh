# A disk that is full is found before the run begins, by explain as by train; the message names the folder that was given.
. "$ROOT/tests/ranks/lib.sh"
unshare -rm true 2>/dev/null || { echo "no mount namespaces of our own here"; exit 77; }
cat >inside <<'END'
mkdir full
mount -t tmpfs -o size=200k none full || exit 77
mkdir full/below
dd if=/dev/zero of=full/filler bs=4k 2>/dev/null
for out in full/run/of/mine full/below; do
    for command in explain train; do
        "$STRETTO" $command $small --out $out --quiet >>out.none 2>>err.none
        echo $? >>code.none
    done
done
ls -A full full/below >found
rm full/filler
dd if=/dev/zero of=full/filler bs=4k count=25 2>/dev/null # leaves less than a checkpoint takes, more than a model
for command in explain train; do
    for ranks in 1 2; do
        "$STRETTO" $command -n $ranks $small --optimizer adam --out full/run/of/mine --quiet >>out.few 2>>err.few
        echo $? >>code.few
    done
done
"$STRETTO" explain $small --optimizer adam --save-every never --out full/run/of/mine --quiet >>out.few 2>>err.few
echo $? >code.never
ls -A full >>found
END
export small
unshare -rm sh inside || { echo "no tmpfs can be mounted here"; exit 77; }
[ "$(uniq <code.none)" = 3 ] || { echo "no byte free: exit codes" $(cat code.none); cat err.none; exit 1; }
says err.none '^stretto: error: --out full/run/of/mine: .*No space left on device'
says err.none '^stretto: error: --out full/below: .*No space left on device'
! grep '\.stretto-' err.none found || exit 1
# room for less than a checkpoint
[ "$(uniq <code.few)" = 3 ] || { echo "little room: exit codes" $(cat code.few); cat err.few; exit 1; }
[ "$(grep -c '^stretto: error: --out full/run/of/mine: .*a checkpoint takes .* are free' err.few)" = 4 ] || { cat err.few; exit 1; }
[ "$(cat code.never)" = 0 ] || { echo "without saves: exit code $(cat code.never)"; cat err.few; exit 1; }
! grep '^run$' found || { echo "a refused run made its folder"; exit 1; }
