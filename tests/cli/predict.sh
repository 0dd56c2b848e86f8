# stretto predict: rows of a .npy file or a data set through a trained model, as .npy or JSON lines; the same bytes on any ranks;
# what is refused leaves no file.
. "$ROOT/tests/cli/lib.sh"
"$STRETTO" train --model resnet8 --steps 4 --threads 1 --quiet --out run || say "run: exit $?"
predict() { "$STRETTO" predict run "$@" 2>err || say "predict $*: exit $?: $(cat err)"; }
refused() { # CODE WORDS ARGUMENT...
    code=$1 words=$2
    shift 2
    ends "$code" predict "$@"
    grep -q -e "$words" err || say "predict $*: $(cat err)"
    [ "$(ls -A | grep -c '^refused')" = 0 ] || say "predict $*: left $(ls -A)"
}
# FILE DESCR SHAPE: the header of numpy.save; the caller appends the elements.
header() {
    printf '\223NUMPY\001\000\166\000' >"$1"
    printf "%-117s\n" "{'descr': '$2', 'fortran_order': $4, 'shape': $3, }" >>"$1"
}
zeros() { head -c "$2" /dev/zero >>"$1"; }

# A line for each sample, in order; the class is the first of the top, and how often it is right is what eval counts.
predict --output all.jsonl
[ "$(wc -l <all.jsonl)" = 297 ] || say "$(wc -l <all.jsonl) lines"
awk -F'[:,]' '$2 != NR - 1 { exit 1 }' all.jsonl || say "not in order"
grep -q -v '"class":\([0-9]\),"name":"\1","top":\[{"class":\1,"name":"\1","probability":' all.jsonl && say "a line: $(head -n 1 all.jsonl)"
predict --output - --top 2 | head -n 1 | grep -o probability | wc -l | grep -q '^2$' || say "--top 2"
predict --output - >screen
cmp -s screen all.jsonl || say "standard output is another"

# The bytes do not depend on the ranks.
predict --output logits.npy --as logits
for options in "-n 2" "-n 3" "-n 2 --strategy gpipe" "-n 4 --strategy 1f1b --stages 2" "-n 2 --strategy zero3" "-n 2 --strategy dp"; do
    # shellcheck disable=SC2086
    {
        predict $options --output some.npy --as logits --quiet
        cmp -s some.npy logits.npy || say "$options: another some.npy"
        predict $options --output some.jsonl --quiet
        cmp -s some.jsonl all.jsonl || say "$options: another some.jsonl"
    }
done
predict -n 2 --output - --quiet >screen
cmp -s screen all.jsonl || say "standard output of two ranks is another"
# Also lines longer than any that a launcher shows, to the last byte; and a disk that is full is told.
"$STRETTO" train --data synthetic:size=8,classes=1000,test_count=65 --steps 1 --eval-every never --threads 1 --quiet --out many || say "many: exit $?"
"$STRETTO" predict many --output - --as probabilities --quiet >want || say "many classes: exit $?"
for options in "-n 2" "-n 2 --spawn threads"; do
    # shellcheck disable=SC2086
    {
        "$STRETTO" predict many $options --output - --as probabilities --quiet >have || say "$options, many classes: exit $?"
        cmp -s have want || say "$options: long lines are others"
        "$STRETTO" predict run $options --output - >/dev/full 2>err && say "$options, full: no failure"
        grep -q 'standard output: write failed: No space left on device' err || say "$options, full: $(cat err)"
        { "$STRETTO" predict many $options --output - --as probabilities 2>err; echo $? >code; } | head -c 9000 >/dev/null
        [ "$(cat code)" = 3 ] || say "$options, nobody reads: exit $(cat code)"
        grep -q 'standard output: write failed: Broken pipe' err || say "$options, nobody reads: $(cat err)"
    }
done
ls -A | grep -e part -e '\.tmp' && say "left behind"
# Nor is anything written through a link that lies where a part goes.
mkdir shared && echo kept >kept
# shellcheck disable=SC2016
TMPDIR=shared sh -c 'ln -s ../kept shared/stretto-predict-$$.part-0; exec "$0" predict run -n 2 --spawn threads --output - --quiet' "$STRETTO" >screen
cmp -s screen all.jsonl || say "standard output of two threads is another"
[ "$(cat kept)" = kept ] || say "written through a link"
[ -z "$(ls -A shared)" ] || say "left in TMPDIR: $(ls -A shared)"

# What a file holds: 297 rows of 10 f4, or one i8 each.
[ "$(wc -c <logits.npy)" = $((128 + 297 * 40)) ] || say "logits: $(wc -c <logits.npy) bytes"
head -c 90 logits.npy | grep -q -a "'<f4', 'fortran_order': False, 'shape': (297, 10), }" || say "logits: $(head -c 90 logits.npy)"
predict --output classes.npy --as classes
head -c 90 classes.npy | grep -q -a "'<i8', 'fortran_order': False, 'shape': (297,), }" || say "classes: $(head -c 90 classes.npy)"
od -An -v -td8 -w8 -j128 classes.npy | tr -d ' ' >have
sed 's/.*"class":\([0-9]\),"name":"[0-9]","top".*/\1/' all.jsonl >want
cmp -s have want || say "the classes are others"
predict --output probabilities.npy
od -An -v -tf4 -w40 -j128 probabilities.npy | awk '{ sum = 0; for (i = 1; i <= NF; i++) sum += $i; if (sum < 0.9999 || sum > 1.0001) exit 1 }' ||
    say "probabilities do not add up"

# Rows of a file: with a channel and without; bytes of pixels as the data set normalises them; both splits of a data set.
header rows.npy '<f4' '(70, 1, 8, 8)' False
zeros rows.npy $((70 * 256))
header flat.npy '<f4' '(70, 8, 8)' False
zeros flat.npy $((70 * 256))
header bytes.npy '|u1' '(70, 1, 8, 8)' False
zeros bytes.npy $((70 * 64))
predict --input rows.npy --output rows.jsonl
predict --input flat.npy --output flat.jsonl
predict --input bytes.npy --output bytes.jsonl
[ "$(wc -l <rows.jsonl)" = 70 ] || say "rows: $(wc -l <rows.jsonl)"
cmp -s rows.jsonl flat.jsonl || say "without a channel it is another"
cmp -s rows.jsonl bytes.jsonl && say "bytes are not normalised"
predict --input rows.npy --output more.jsonl -n 2 --quiet
cmp -s rows.jsonl more.jsonl || say "rows on two ranks are others"
predict --data digits --split train --output - | wc -l | grep -q '^1500$' || say "the train split"
predict --input digits --output - | cmp -s - all.jsonl || say "--input digits"

# What it took, beside what was predicted; of many rows no more than of few.
header many.npy '<f4' '(400000, 1, 8, 8)' False
zeros many.npy $((400000 * 256))
predict --input many.npy --output many.npy.out.npy --as classes
[ -n "${SAN:-}" ] || sed -n 's/.*400000 samples in .*, peak memory \([0-9.]*\) MiB (predicted \([0-9.]*\) MiB).*/\1 \2/p' err |
    awk '{ found = 1; if ($1 > 1.05 * $2 || $1 > 40) exit 1 } END { exit !found }' || say "memory: $(cat err)"
rm -f many.npy many.npy.out.npy

# Where its own data are not any more, the run still knows how they looked. A folder of pictures says it wants some.
if "$STRETTO" doctor 2>/dev/null | grep -q 'pictures built'; then
    mkdir -p pics/train/cat pics/train/dog photos/deep
    for n in 1 2 3; do
        cp "$ROOT/tests/fuzz/corpus/picture/rgb8.png" pics/train/cat/$n.png
        cp "$ROOT/tests/fuzz/corpus/picture/grey8.png" pics/train/dog/$n.png
    done
    cp pics/train/cat/1.png photos/b.png
    cp pics/train/dog/1.png photos/deep/a.png
    "$STRETTO" train --model mlp --data folder:pics,test=train --image-size 8 --steps 2 --threads 1 --quiet --out seen || say "pictures: exit $?"
    # Alone in its batch a picture has the same bits beside any others; among more of them it is as near as rounding is.
    "$STRETTO" predict seen --eval-batch 1 --output own.jsonl --quiet --threads 1 || say "own pictures: exit $?"
    mv pics away
    for options in "-n 1" "-n 2"; do
        # shellcheck disable=SC2086
        "$STRETTO" predict seen $options --eval-batch 1 --input photos --output loose.jsonl --quiet --threads 1 || say "loose pictures: exit $?"
        for pair in '1 photos/b.png' '2 photos/deep/a.png'; do
            set -- $pair
            line=$(sed -n "$1p" loose.jsonl)
            case $line in "{\"index\":$(($1 - 1)),\"file\":\"$2\","*) ;; *) say "line $1: $line" ;; esac
            want=$(sed -n "$((3 * $1))p" own.jsonl)
            [ "${line#*class}" = "${want#*class}" ] || say "$line is not $want"
        done
    done
    "$STRETTO" predict seen --input photos --output both.jsonl --quiet --threads 1 || say "two pictures: exit $?"
    paste -d '\n' loose.jsonl both.jsonl | sed 's/.*"class":\([0-9]*\),.*"top":.*"probability":\([0-9.]*\)}.*/\1 \2/' |
        awk 'NR % 2 { class = $1; p = $2; next } { pairs++; d = $2 - p; if ($1 != class || d > 1e-6 || d < -1e-6) exit 1 } END { if (pairs != 2) exit 1 }' ||
        say "$(cat both.jsonl) is not $(cat loose.jsonl)"
    refused 3 'inputs are a .npy file, pictures, a folder of them, or a data set' seen --input nowhere --output refused.npy
fi

# More classes than names.
"$STRETTO" train --model mlp --classes 12 --steps 1 --threads 1 --quiet --out more || say "more classes: exit $?"
"$STRETTO" predict more --output more.jsonl --top 12 --quiet || say "more classes: exit $?"
head -n 1 more.jsonl | grep -q '{"class":11,"probability"' || say "more classes: $(head -n 1 more.jsonl)"

# Refused: nothing is left.
header shape.npy '<f4' '(70, 1, 9, 8)' False
zeros shape.npy $((70 * 288))
refused 3 'its shape is \[70,1,9,8\], the model takes rows of \[1,8,8\]' run --input shape.npy --output refused.npy
header last.npy '<f4' '(70, 8, 8, 3)' False
zeros last.npy $((70 * 768))
refused 3 'its shape is \[70,8,8,3\], the model takes rows of \[1,8,8\]' run --input last.npy --output refused.npy
header single.npy '<f4' '(8, 8, 1)' False
zeros single.npy 256
refused 3 'of a single one: numpy.save(FILE, array\[None\])' run --input single.npy --output refused.npy
header columns.npy '<f4' '(70, 1, 8, 8)' True
zeros columns.npy $((70 * 256))
refused 3 'row-major' run --input columns.npy --output refused.npy
header empty.npy '<f4' '(0, 1, 8, 8)' False
refused 3 'it has no rows' run --input empty.npy --output refused.npy
header nan.npy '<f4' '(70, 1, 8, 8)' False
zeros nan.npy $((69 * 256))
zeros nan.npy 252
printf '\000\000\300\177' >>nan.npy
refused 6 'sample 69: the score of class 0 is nan' run --input nan.npy --output refused.npy
refused 6 'sample 69: the score of class 0 is nan' run --input nan.npy --output refused.jsonl -n 2 --threads 1
refused 2 '\-\-output FILE is missing' run
refused 2 'a .npy file, JSON lines' run --output refused.txt
refused 2 'no effect' run --output refused.npy --top 3
refused 3 'nowhere' run --input rows.npy --output nowhere/refused.npy
"$STRETTO" predict run --input rows.npy --output - >/dev/full 2>err
[ $? = 3 ] && [ "$(grep -c 'No space left' err)" = 1 ] || say "a full pipe: $(cat err)"

# A disk that takes no more: no file is larger than 10 KiB.
for ranks in "-n 1" "-n 2 --strategy dp"; do # shared memory of processes is a file, too
    # shellcheck disable=SC2086
    (trap '' XFSZ && ulimit -f 20 && exec "$STRETTO" predict run --output refused.npy --as logits --split train $ranks --threads 1 --quiet) 2>err
    got=$?
    [ $got = 3 ] || say "full disk, $ranks: exit $got: $(cat err)"
    ls -A | grep '^refused' && say "full disk, $ranks: left behind"
done

# A signal in the middle: stopped, and nothing is left. It is sent once there is a file that is being written.
for ranks in 1 2; do
    "$STRETTO" predict run --data "synthetic:count=16,test_count=400000,size=8,channels=1" --output refused.jsonl -n $ranks --threads 1 --quiet 2>err &
    pid=$!
    while ! ls -A | grep -q '^refused' && kill -0 $pid 2>/dev/null; do sleep 0.05; done
    kill -TERM $pid
    wait $pid
    got=$?
    [ $got = 143 ] || say "SIGTERM, $ranks ranks: exit $got: $(cat err)"
    ls -A | grep '^refused' && say "SIGTERM, $ranks ranks: left behind"
done
# Weights alone, of a model of images: how many classes they have is all that must be said. The rows are those that a data set
# of this shape stands for, and pictures those of a folder of ImageNet's normalisation.
"$STRETTO" train --model resnet18 --data synthetic:size=32,classes=7,count=8,test_count=4 --batch 4 --steps 1 --lr 0 --threads 1 \
    --eval-every never --save-every never --quiet --out alone || say "alone: exit $?"
mv alone/model.safetensors alone.safetensors
alone="alone.safetensors --model resnet18 --classes 7 --threads 1 --quiet --as logits"
header large.npy '<f4' '(2, 3, 224, 224)' False
zeros large.npy $((2 * 3 * 224 * 224 * 4))
for options in "" "-n 2"; do
    "$STRETTO" predict $alone $options --input large.npy --output have.npy || say "weights alone $options: exit $?"
    "$STRETTO" predict $alone --data synthetic:size=224,classes=7 --input large.npy --output want.npy || say "with data: exit $?"
    cmp -s have.npy want.npy || say "weights alone $options: other rows"
done
if "$STRETTO" doctor 2>/dev/null | grep -q 'pictures built'; then
    mkdir -p likes/train/x likes/test/x
    cp "$ROOT/tests/fuzz/corpus/picture/rgb8.png" likes/train/x/ && cp likes/train/x/rgb8.png likes/test/x/
    "$STRETTO" predict $alone --image-size 64 --input likes/test --output have.npy || say "pictures alone: exit $?"
    "$STRETTO" predict $alone --image-size 64 --data folder:likes --input likes/test --output want.npy 2>/dev/null || say "with a folder: exit $?"
    cmp -s have.npy want.npy || say "pictures alone: other answers"
fi
alone="alone.safetensors --model resnet18 --output refused.npy"
refused 2 'weights do not say of how many classes they are' $alone --input large.npy
refused 2 'there is nothing to predict' $alone --classes 7
refused 3 'not this model' $alone --classes 8 --input large.npy
refused 3 'its shape is \[2,3,224,224\], the model takes rows of \[3,64,64\]' $alone --classes 7 --image-size 64 --input large.npy
refused 2 'weights do not say which data they are for' alone.safetensors --model gpt2 --classes 7 --input large.npy --output refused.npy
exit $failed
