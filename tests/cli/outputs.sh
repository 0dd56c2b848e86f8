# Outputs: every writer against everything that must not be written over. It is refused before anything is computed, and all
# files stay as they were; an older output of the same kind is replaced.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 32 --eval-every never --save-every never --quiet"
# shellcheck disable=SC2086
"$STRETTO" train $mlp --steps 1 --out run || say "a run failed"
mkdir locked texts && chmod 555 locked
echo "workers: 1" >options
seq 2000 >texts/text
unprivileged=$STRETTO
if [ "$(id -u)" = 0 ]; then # root writes everywhere, unless it gives that up
    unprivileged=./unprivileged
    printf '#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all "%s" "$@"\n' "$STRETTO" >$unprivileged
    chmod +x $unprivileged
fi

# content: names and bytes of all that is here, but for what this script itself writes
content() { find . ! -name out ! -name err ! -name before ! -name after -printf '%p %i %l\n' | sort && find . -type f ! -name out ! -name err ! -name before ! -name after -exec cksum {} + | sort; }
# write WRITER FILE ARGUMENT...: the command that writes the file
write() {
    writer=$1 file=$2
    shift 2
    # shellcheck disable=SC2086
    case $writer in
    save-profile) "$binary" train $mlp --steps 8 --out new --save-profile "$file" "$@" ;;
    save-program) "$binary" train $mlp --steps 1 --out new --save-program "$file" "$@" ;;
    explain-program) "$binary" explain $mlp --save-program "$file" "$@" ;;
    explain-*) "$binary" explain $mlp --draw "$file" "$@" ;;
    simulate-*) "$binary" simulate $mlp --draw "$file" "$@" ;;
    plan-*) "$binary" plan $mlp -n 2 --write "$file" "$@" ;;
    eval-*) "$binary" eval run --threads 1 --quiet --output "$file" "$@" ;;
    ranks-*) "$binary" predict run -n 2 --threads 1 --quiet --output "$file" "$@" ;;
    predict-*) "$binary" predict run --threads 1 --quiet --output "$file" "$@" ;;
    esac >out 2>err
}
# refuses CODE WORDS WRITER FILE ARGUMENT...: so it ends, in one sentence, and nothing has changed
refuses() {
    code=$1 words=$2
    shift 2
    content >before
    write "$@"
    got=$?
    content >after
    [ $got = "$code" ] || say "$*: exit $got, not $code: $(cat err)"
    grep -qF -- "$words" err || say "$*: no '$words' in: $(cat err)"
    [ "$(wc -l <err)" = 1 ] || say "$*: not one sentence: $(cat err)"
    cmp -s before after || say "$*: changed: $(diff before after)"
}

# WRITER ENDING AGAIN: whether an older output is replaced
while read -r writer ending again; do
    binary=$STRETTO
    cp options "in$ending"
    ln -s "in$ending" "soft$ending"
    ln "in$ending" "hard$ending"
    refuses 2 'this file is an input (--config)' "$writer" "in$ending" --config "in$ending"
    refuses 2 'this file is an input (--config)' "$writer" "soft$ending" --config "in$ending"
    refuses 2 'this file is an input (--config)' "$writer" "in$ending" --config "soft$ending"
    refuses 2 'this file is an input (--config)' "$writer" "hard$ending" --config "in$ending"
    for name in model.safetensors data.json summary.json report.html config.yml metrics.jsonl checkpoints/mine rank-3.log; do
        case $name in
        *"$ending") refuses 2 'this is a file of the run in' "$writer" run/$name ;;
        checkpoints/*) refuses 2 'this is a file of the run in' "$writer" "run/$name$ending" ;;
        esac
    done
    ln -s run/summary.json "link$ending" # where the name says nothing
    refuses 2 'this is a file of the run in' "$writer" "link$ending"
    echo mine >"mine$ending"
    refuses 2 'is not written over' "$writer" "mine$ending"
    cp run/model.safetensors "weights$ending"
    refuses 2 'is not written over' "$writer" "weights$ending"
    mkdir "folder$ending"
    refuses 2 'a folder, where a file is to be written' "$writer" "folder$ending"
    refuses 3 'cannot write: No such file or directory' "$writer" "nowhere/x$ending"
    binary=$unprivileged
    refuses 3 'cannot write: Permission denied' "$writer" "locked/x$ending"
    binary=$STRETTO
    # What it writes is not refused; then it is there.
    write "$writer" "made$ending" || say "$writer: exit $?: $(cat err)"
    [ -s "made$ending" ] || say "$writer: nothing was written"
    rm -rf new
    if [ "$again" = yes ]; then
        write "$writer" "made$ending" || say "$writer, once more: exit $?: $(cat err)"
        rm -rf new
        : >"empty$ending"
        write "$writer" "empty$ending" || say "$writer, over an empty file: exit $?: $(cat err)"
        rm -rf new
    else
        refuses 2 'is not written over' "$writer" "made$ending"
    fi
    mv "made$ending" "kind-$writer"
    rm -rf in* soft* hard* link* mine* weights* folder* empty*
done <<END
save-profile .profile yes
save-program .txt no
explain-program .txt no
explain-svg .svg yes
explain-page .html yes
simulate-svg .svg yes
simulate-page .html yes
eval-json .json yes
eval-csv .csv yes
predict-array .npy yes
predict-lines .jsonl yes
ranks-array .npy yes
ranks-lines .jsonl yes
END

# What one writes is of another kind to the others.
while read -r writer ending; do
    for kind in kind-*; do
        case $writer in *"${kind##*-}") continue ;; esac
        cp "$kind" "x$ending"
        refuses 2 'is not written over' "$writer" "x$ending"
        rm "x$ending"
    done
done <<END
save-profile .json
explain-svg .svg
explain-page .html
eval-json .json
plan-config .yml
eval-csv .csv
predict-array .npy
predict-lines .jsonl
END
cp run/report.html report.html
refuses 2 'the file there is not a page from --draw' explain-page report.html
refuses 2 '--save-program writes this file, too' save-profile both --save-program both
refuses 2 'this is a file of the run in' save-profile new/summary.json
refuses 2 'this is a file of the run in' save-program new/program.txt
mkdir own within && ln -s own to-own
for name in own/. to-own ./within/../own .//own/; do
    answers 2 'this is a file of the run in' train $mlp --steps 8 --out $name --save-profile own/summary.json
done
for name in new own new/. ./new within/../new; do
    answers 2 "--save-profile $name: " train $mlp --steps 8 --out "${name%/.}" --save-profile $name
done
answers 2 'the run makes a folder of this name' train $mlp --steps 8 --out within/a/b --save-profile within/a
answers 2 'the run makes a folder of this name' train $mlp --steps 1 --out new --save-program new
answers 2 'the run makes a folder of this name' train $mlp --steps 8 --save-profile runs
[ ! -e new ] && [ ! -e runs ] && [ -z "$(find own within -mindepth 1)" ] || say "a name of the run's folder: something was written"
rm -r own within to-own
write save-profile new/mine.json --save-program new/mine.txt || say "files beside those of the run: $(cat err)"
[ -s new/mine.json ] && [ -s new/mine.txt ] || say "files beside those of the run: $(ls new)"
write eval-json run/eval.json && write eval-json run/eval.json || say "a file of ours in the folder of a run: $(cat err)"
rm -rf new

# A file that grows too large, or a disk that is full, leaves no part of a file.
for option in save-program draw; do
    # shellcheck disable=SC2086
    (ulimit -f 1 && "$STRETTO" explain $mlp --strategy gpipe -n 2 --micro-batches 32 --$option part.svg 2>&1 >/dev/null) |
        grep -q 'part.svg: write failed: File too large' || say "--$option: nothing is said of a file that could not be written"
    [ ! -e part.svg ] || say "--$option: a part of a file is left"
done

# predict: its inputs by --input and by --data.
header() { # FILE SHAPE BYTES
    printf '\223NUMPY\001\000\166\000' >"$1"
    printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': $2, }" >>"$1"
    head -c "$3" /dev/zero >>"$1"
}
mkdir arrays
header rows.npy '(3, 1, 8, 8)' 768
header arrays/x_train.npy '(3, 1, 8, 8)' 768
header arrays/x_test.npy '(3, 1, 8, 8)' 768
header arrays/held.npy '(3, 1, 8, 8)' 768
ln -s rows.npy soft.npy
ln rows.npy hard.npy
ln -s arrays linked
for file in rows.npy soft.npy hard.npy ./rows.npy "$PWD/rows.npy"; do
    refuses 2 'this file is an input (--input)' predict-array "$file" --input rows.npy
    refuses 2 'this file is an input (--input)' ranks-array "$file" --input rows.npy
done
refuses 2 'this file is an input (--input)' predict-array arrays/x_train.npy --input npy:arrays
refuses 2 'this file is an input (--input)' predict-array arrays/x_test.npy --input npy:arrays
refuses 2 'this file is an input (--input)' predict-array linked/x_train.npy --input npy:arrays
refuses 2 'this file is an input (--input)' predict-array arrays/held.npy --input npy:arrays,test_x=held
header pictures.npy '(3, 1, 8, 8)' 768
refuses 2 'the file there is not an array of predictions' predict-array pictures.npy --input rows.npy
sed 's/<f4/|u1/' pictures.npy >bytes.npy
refuses 2 'the file there is not an array of predictions' predict-array bytes.npy --input rows.npy
for as in logits probabilities classes; do
    write predict-array "$as.npy" --as $as && write predict-array "$as.npy" || say "over $as: $(cat err)"
done
write predict-array arrays/answers.npy --input npy:arrays && write predict-array arrays/answers.npy --input npy:arrays ||
    say "beside the inputs: $(cat err)"

# The weights that a command reads.
cp run/model.safetensors weights.npy
content >before
"$STRETTO" predict weights.npy --model mlp --data digits --threads 1 --output weights.npy >out 2>err
[ $? = 2 ] && grep -q 'this file is an input (predict)' err || say "weights: $(cat err)"
content | cmp -s before - || say "weights: changed"

# tokens and key.
mkdir data
cp texts/text data/train.tokens
content >before
answers 2 'this file is an input (tokens)' tokens data/train.tokens data --overwrite
answers 2 'the file there is not a file of tokens' tokens texts/text data --overwrite
answers 2 'a file, where a folder is to be written' tokens texts/text texts/text
answers 2 'a folder of the system' tokens texts/text /
answers 2 'this is a file of the run in' tokens texts/text run/checkpoints
answers 2 'this is a file of the run in' key run/data.json
answers 2 'the file exists and is not written over' key texts/text
answers 2 'a folder, where a file is to be written' key texts
answers 3 'No such file or directory' key nowhere/key
content | cmp -s before - || say "tokens and key: changed: $(content | diff before -)"

# Where ranks meet.
answers 2 'this is a file of the run in' train --model mlp --rank 0 --world-size 2 --init "file://$PWD/run/data.json" --out new
answers 2 'this file is an input (--config)' train --model mlp --rank 0 --world-size 2 --init "file://$PWD/options" --config options --out new
answers 2 'texts/text' train --model mlp --rank 0 --world-size 2 --init "file://$PWD/texts/text" --out new
[ ! -e new ] && content | cmp -s before - || say "--init: changed: $(content | diff before -)"

# --out: of a run, or new, or empty.
mkdir empty filled
echo mine >filled/notes.txt
expect() { # CODE WORDS ARGUMENT...
    code=$1 words=$2
    shift 2
    # shellcheck disable=SC2086
    answers "$code" "$words" train $mlp --steps 1 "$@"
}
content >before
expect 2 'a folder of the system is not for the files of a run' --out /
expect 2 'a folder of the system is not for the files of a run' --out //
expect 2 'a folder of the system is not for the files of a run' --out /etc/stretto
HOME=$PWD expect 2 'a folder of the system is not for the files of a run' --out /tmp # /tmp may be the home folder
HOME=$PWD/empty expect 2 'the home folder is not for the files of a run' --out empty
expect 2 'holds ' --out .
expect 2 'holds notes.txt, but nothing that shows a run' --out filled
expect 2 'holds notes.txt, but nothing that shows a run' --out filled --overwrite
expect 2 'a file, where a folder is to be written' --out texts/text
expect 2 'holds a run already' --out run
expect 2 'this is a file of the run in' --out run/checkpoints
expect 2 'this is a file of the run in' --out run/checkpoints/new
expect 2 'a file, where a folder is to be written' --out run/trace.json
expect 2 'this is a file of the run in' --out run/rank-9.log
expect 2 '--overwrite would remove this input' --out run --overwrite --weights run
expect 2 '--overwrite would remove this input' --out run --overwrite --weights run/model.safetensors
expect 2 '--overwrite would remove this input' --out run --overwrite --program run/program.txt
expect 2 '--overwrite would remove this input' --out run --overwrite --config run/config.yml
content | cmp -s before - || say "--out: changed: $(content | diff before -)"
mkdir -p split/train/cat split/val/cat split/held flat/cat
content >before
expect 2 ' is a class' --data folder:split --out split/train/run
expect 2 ' is a class' --data folder:split --out split/train/cat/run
expect 2 ' is a class' --data folder:split,test=held --out split/held/run
expect 2 ' is a class' --data folder:./split/ --out split/val/run
expect 2 ' is a class' --data folder:flat --out flat/run
(cd flat && expect 2 '--out runs: a folder among the pictures' --data folder:. && rm out err && exit $failed) || failed=1
expect 3 'no pictures' --data folder:split --out split/run
content | cmp -s before - || say "--out among pictures: changed: $(content | diff before -)"
expect 0 '' --out empty
expect 0 '' --out run/nested
exit $failed
