# A folder of pictures trains and evaluates, with the same bits on any number of ranks and threads. What is damaged is named;
# with --damaged skip it is left out, or has no label where only decoding shows it, and is counted alike on every layout.
. "$ROOT/tests/ranks/lib.sh"
from=$ROOT/tests/fuzz/corpus/picture
for class in cat dog; do
    mkdir -p data/train/$class data/val/$class
    i=0
    for file in "$from"/*; do
        i=$((i + 1))
        cp "$file" data/train/$class/$i.${file##*.}
        [ $((i % 4)) -ne 0 ] || cp "$file" data/val/$class/$i.${file##*.}
    done
done
need pictures
predict() { "$STRETTO" predict "$@"; }
run="--data folder:data --model resnet8 --image-size 12 --epochs 2 --batch 8 --threads 1 --save-every never --quiet"
count() { sed -n "s/.*\"$2\": \([0-9]*\),/\1/p" $1/summary.json; }

code 0 train $run --out one
code 0 train $run --quiet off --steps 1 --out said
says err "folder: images \[3,12,12\] cut from pictures of other sizes, 2 classes, tested on data/val"
code 0 train $run --workers 3 --out three
same one three
[ "$(count one damaged_samples) $(count one skipped_samples)" = "0 0" ] || { echo "something is damaged"; exit 1; }
grep -q '"acc1": [0-9]' one/summary.json || { echo "no accuracy"; exit 1; }
code 0 train $run --augment none --out plain
[ "$(hash one)" != "$(hash plain)" ] || { echo "--augment does nothing"; exit 1; }
code 0 train $run --deal 2x1 --out deal
code 0 train $run -n 2 --out ranks
same deal ranks

# One file that shows at the start, one that shows when it is decoded.
: >data/train/cat/empty.jpg
head -c 700 "$from/420.jpg" >data/train/dog/cut.jpg
code 3 train $run --out stop
says err "data/train/cat/empty.jpg: damaged picture: an empty file"
[ "$(wc -l <err)" -le 3 ] || { echo "more than three lines"; cat err; exit 1; }
code 0 train $run --damaged skip --out skip1
says err "empty.jpg: damaged picture, skipped: an empty file"
says err "cut.jpg: damaged picture, skipped: the file ends in the middle of the picture"
[ "$(grep -c cut.jpg err)" = 1 ] || { echo "it is named again"; cat err; exit 1; }
code 0 train $run --damaged skip --deal 2x2 --out skip4
code 0 train $run --damaged skip -n 2 --micro-batches 2 --out skip2x2
same skip4 skip2x2
code 0 train $run --damaged skip --strategy 1f1b --stages 2 --micro-batches 2 --out pipe
for out in skip1 skip4 skip2x2 pipe; do
    [ "$(count $out damaged_samples) $(count $out skipped_samples)" = "1 2" ] || {
        echo "$out: $(count $out damaged_samples) left out, $(count $out skipped_samples) skipped"
        exit 1
    }
done
"$STRETTO" eval skip1 --split train --json >eval.json 2>err
grep -q '"skipped_samples":1,' eval.json || { echo "eval counts nothing skipped"; cat eval.json err; exit 1; }
# An answer for each picture but the one that cannot be read, with its file, on any ranks.
code 0 predict skip1 --split train --output answers.jsonl
says err "samples (1 damaged, without an answer)"
sed "s|\"$PWD/|\"|" answers.jsonl >local # config.yml has the path from the root
grep -v '^{"index":[0-9]*,"file":"data/train/\(cat\|dog\)/[^"]*","class":' local >odd
[ "$(cat odd)" = "$(grep -n cut.jpg answers.jsonl | sed 's/:.*//' | awk '{ printf "{\"index\":%d,\"file\":\"data/train/dog/cut.jpg\",\"damaged\":true}", $1 - 1 }')" ] || {
    echo "the damaged one: $(cat odd)"
    exit 1
}
for ranks in "-n 2" "-n 2 --strategy gpipe"; do
    code 0 predict skip1 --split train --output ranks.jsonl $ranks --quiet
    cmp -s ranks.jsonl answers.jsonl || { echo "$ranks: other answers"; exit 1; }
done
code 0 predict skip1 --split train --output classes.npy --as classes --quiet
[ "$(od -An -v -td8 -w8 -j128 classes.npy | grep -c -e -1)" = 1 ] || { echo "its class in numbers"; exit 1; }
code 0 predict skip1 --split train --output scores.npy --as logits --quiet
[ "$(od -An -v -tf4 -w8 -j128 scores.npy | grep -c nan)" = 1 ] || { echo "its scores in numbers"; exit 1; }
rm data/train/cat/empty.jpg
code 3 train $run --out late
says err "data/train/dog/cut.jpg: damaged picture: the file ends in the middle of the picture"
exit 0
