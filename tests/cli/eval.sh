# stretto eval: the numbers of the run's own last evaluation, to the last bit, whatever ranks trained and whatever ranks evaluate;
# the table of classes and the confusion table; what is refused.
. "$ROOT/tests/cli/lib.sh"
data="--data synthetic:count=96,test_count=150,size=8,channels=1,classes=4"
field() { # FILE KEY: its number
    sed -n "s/.*\"$2\": *\([^,}]*\).*/\1/p" "$1" | head -n 1
}
same() { # WHAT A B: the same double
    awk -v a="$2" -v b="$3" 'BEGIN { exit !(a != "" && a + 0 == b + 0) }' || say "$1: $2 is not $3"
}
run_equals() { # RUN OPTION...: eval's numbers are those of summary.json
    run=$1
    shift
    "$STRETTO" eval "$run" --json "$@" >out 2>err || say "eval $run $*: exit $?: $(cat err)"
    for pair in loss:eval_loss acc1:acc1 acc5:acc5; do
        same "eval $run $*: ${pair%:*}" "$(field out "${pair%:*}")" "$(field "$run/summary.json" "${pair#*:}")"
    done
}
refused() { # CODE WORDS ARGUMENT...
    code=$1 words=$2
    shift 2
    ends "$code" eval "$@"
    grep -q -e "$words" err || say "eval $*: $(cat err)"
    [ "$(grep -c . err)" -le 3 ] || say "eval $*: many lines: $(cat err)"
}

# shellcheck disable=SC2086
{
    # A micro-batch of 16 samples here, of 32 there: the layouts of parameters are those of the run.
    "$STRETTO" train --model resnet8 $data --batch 32 --steps 3 --threads 1 --label-smoothing 0.1 --conv direct --quiet --out one || say "one: exit $?"
    "$STRETTO" train --model resnet8 $data --batch 32 --steps 3 --threads 1 --dtype bf16 --quiet --out half 2>err || rm -rf half # not on every machine
    "$STRETTO" train --model resnet8 $data --batch 32 --steps 3 --threads 1 -n 2 --eval-batch 7 --quiet --out two || say "two: exit $?"
    "$STRETTO" train --model resnet8 $data --batch 32 --micro-batches 2 --steps 3 --threads 1 --strategy 1f1b --stages 2 --quiet --out pipe ||
        say "pipe: exit $?"
}
for run in one half two pipe; do [ $run = half ] && [ ! -e half ] || run_equals $run; done
for options in "-n 2" "-n 3" "-n 2 --strategy gpipe" "-n 4 --strategy 1f1b --stages 2" "-n 2 --strategy zero3" "-n 2 --strategy dp" \
    "-n 3 --strategy rpc" "-n 2 --strategy interleaved"; do
    # shellcheck disable=SC2086
    run_equals one $options
done
run_equals two -n 2

# A weights file with the model named; a checkpoint.
"$STRETTO" eval two/model.safetensors --model resnet8 --data synthetic:count=96,test_count=150,size=8,channels=1,classes=4 \
    --micro-batch-size 16 --eval-batch 7 --threads 1 --json >out 2>err || say "weights: $(cat err)"
same weights "$(field out loss)" "$(field two/summary.json eval_loss)"
# A run of a version whose summary has other keys, or of one that did not end.
cp -r one old && sed -i '/"steps_not_timed"/d' old/summary.json
"$STRETTO" eval old --json >out 2>err || say "old: exit $?"
[ ! -s err ] || say "old: $(cat err)"
same old "$(field out loss)" "$(field one/summary.json eval_loss)"
rm old/summary.json
"$STRETTO" eval old --json >out 2>err || say "no summary: $(cat err)"
same "no summary" "$(field out loss)" "$(field one/summary.json eval_loss)"
"$STRETTO" eval one/checkpoints/best --json >out 2>err || say "checkpoint: $(cat err)"
[ "$(field out samples)" = 150 ] || say "checkpoint: $(cat out)"
"$STRETTO" eval one --split train --json >out || say "train split: exit $?"
[ "$(field out samples)" = 96 ] || say "train split: $(cat out)"

# Predicted memory is what is taken, within 5%; not by a sanitizer, which has memory of its own.
"$STRETTO" eval one --json >out
[ -n "${SAN:-}" ] || awk -v a="$(field out peak_bytes)" -v b="$(field out predicted_peak_bytes)" 'BEGIN { exit !(a > 0.8 * b && a < 1.05 * b) }' ||
    say "memory: $(cat out)"
refused 5 'the run would need .* --memory-limit is 1.0 MiB' one --memory-limit 1MiB

# Every sample stands once in the table of pairs, which adds up over ranks.
"$STRETTO" eval one --output all.json --quiet || say "all.json: exit $?"
"$STRETTO" eval one -n 3 --threads 1 --output three.json --quiet 2>err || say "three.json: $(cat err)"
for file in all three; do grep -v -e peak -e wall_s -e predicted_s "$file.json" >"$file"; done
cmp -s all three || say "the confusion of three ranks: $(diff all three | head)"
sed -n '/"confusion"/,$p' all.json | tr -dc '0-9\n' | awk '{ sum += $1 } END { exit sum != 150 }' || say "the pairs: $(cat all.json)"
"$STRETTO" eval one --output all.csv --quiet || say "all.csv: exit $?"
[ "$(wc -l <all.csv)" = 5 ] || say "csv: $(cat all.csv)"
head -n 1 all.csv | grep -q '^class,name,samples,right,recall,precision,predicted_0,predicted_1,predicted_2,predicted_3$' || say "csv: $(cat all.csv)"
awk -F, 'NR > 1 { if ($7 + $8 + $9 + $10 != $3 || $(6 + NR - 1) != $4) exit 1 }' all.csv || say "csv: sums: $(cat all.csv)"
"$STRETTO" eval one >out || say "screen: exit $?"
for words in '^accuracy' '^class  *samples  *right  *recall  *precision$' '^confusion: rows are the labels' '^peak memory .*predicted' '^time .*predicted'; do
    grep -q "$words" out || say "screen: no $words: $(cat out)"
done
"$STRETTO" train --model mlp --data synthetic:count=64,test_count=90,size=8,classes=40 --steps 1 --threads 1 --quiet --out many || say "many: exit $?"
"$STRETTO" eval many >out || say "many classes: exit $?"
grep -q 'the 10 classes with the lowest recall, of 40' out || say "many classes: $(cat out)"
grep -q 'the most frequent mistakes' out || say "many classes: $(cat out)"
[ "$(wc -l <out)" -lt 40 ] || say "many classes: a long screen"

# Words.
"$STRETTO" train --model bert-tiny --data synthetic:count=16,test_count=70 --seq 32 --batch 8 --steps 1 --threads 1 --quiet --out words ||
    say "words: exit $?"
run_equals words
"$STRETTO" eval words --seq 32 >out || say "words, an option of the run's model: exit $?"
grep -q '^perplexity' out && grep -q 'masked_words' out || say "words: $(cat out)"

# Of four classes the answer is always among the best five: that is not told. Of ten it is.
[ "$(field one/summary.json acc5)" = null ] || say "acc5 of four classes: $(field one/summary.json acc5)"
"$STRETTO" eval one >out 2>err || say "eval: $(cat err)"
grep -q '^accuracy  *[0-9.]*%$' out || say "accuracy of four classes: $(grep accuracy out)"
"$STRETTO" train --model mlp --steps 1 --threads 1 --out ten >out 2>err || say "ten classes: $(cat err)"
grep -q '^accuracy .*(top 5: [0-9.]*%)' out || say "accuracy of ten classes: $(grep accuracy out)"
case $(field ten/summary.json acc5) in 0.* | 1.*) ;; *) say "acc5 of ten: $(field ten/summary.json acc5)" ;; esac

# Other data are seen at the size of the run's own; what does not fit is refused, by the launcher once.
"$STRETTO" eval one --data synthetic:count=96,test_count=150,channels=1,classes=4 --json >out 2>err || say "other size: $(cat err)"
same "other size" "$(field out loss)" "$(field one/summary.json eval_loss)"
refused 2 'image is \[3,8,8\], of the data that the model was trained on \[1,8,8\]' one --data synthetic:count=96,test_count=150,classes=4
refused 2 'image is \[3,8,8\]' one --data synthetic:count=96,test_count=150,classes=4 -n 2 --threads 1
refused 2 'has 5 classes, the model 4' one --data synthetic:count=96,test_count=150,channels=1,classes=5

refused 3 'nowhere: No such file' nowhere
refused 2 'weights do not say which model' one/model.safetensors
refused 2 'name --data too' one/model.safetensors --model resnet8
refused 2 'holds no run' .
refused 3 'not this model' one/model.safetensors --model resnet20 --data digits
refused 2 'a .json or a .csv file is written' one --output all.txt
refused 2 'has no classes to list' words --output words.csv
[ ! -e words.csv ] || say "words.csv is there"
refused 2 'not an option of eval' one --epochs 3
refused 3 'cannot open the folder' one --data mnist:/nowhere/at/all
exit $failed
