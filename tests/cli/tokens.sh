# stretto tokens makes a data set of text that gpt2-nano trains on; what is damaged is refused with its place.
. "$ROOT/tests/cli/lib.sh"
i=0
while [ $i -lt 400 ]; do echo "the quick brown fox jumps over the lazy dog, line $((i % 10))"; i=$((i + 1)); done >text
"$STRETTO" tokens text data >out 2>err || say "tokens: $(cat err)"
bytes=$(wc -c <text)
grep -q "train.tokens: $((bytes - bytes / 10)) tokens" out || say "train: $(cat out)"
grep -q "test.tokens: $((bytes / 10)) tokens" out || say "test: $(cat out)"
"$STRETTO" tokens text text both >out 2>err || say "two texts: $(cat err)"
grep -q "test.tokens: $bytes tokens" out || say "two texts: $(cat out)"
cksum data/*.tokens >before
"$STRETTO" tokens text text data >out 2>err && say "a data set was replaced"
grep -q 'data holds a data set: train.tokens is there' err && cksum data/*.tokens | cmp -s - before || say "it says: $(cat err)"
"$STRETTO" tokens text text data --overwrite >out 2>err || say "--overwrite: $(cat err)"
grep -q "test.tokens: $bytes tokens" out || say "--overwrite: $(cat out)"
"$STRETTO" tokens text data --overwrite >out 2>err || say "--overwrite: $(cat err)"
set -- --model gpt2-nano --data tokens:data --seq 16 --batch 4 --steps 12 --device ref --threads 1 --eval-every never --save-every never
"$STRETTO" train "$@" --quiet --out run 2>err || say "train: $(cat err)"
first=$(sed -n 's/.*"loss_first": \([0-9.]*\).*/\1/p' run/summary.json)
last=$(sed -n 's/.*"loss_last": \([0-9.]*\).*/\1/p' run/summary.json)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(a > 5 && b < a - 0.5) }' || say "the loss goes from $first to $last"
"$STRETTO" eval run --seq 8 --threads 1 >out 2>err || say "eval of shorter rows: $(cat err)"
refuse() { # words, code: options
    words=$1 code=$2
    shift 2
    "$STRETTO" "$@" >out 2>err
    got=$?
    [ $got -eq "$code" ] || say "$*: exit $got, expected $code"
    grep -q "$words" err || say "$*: says $(cat err)"
    [ "$(wc -l <err)" -le 3 ] || say "$*: more than three lines: $(cat err)"
}
refuse "a row of 4096 needs 4097" 3 explain --model gpt2-nano --data tokens:data --seq 4096
refuse "no effect with --model gpt2-nano" 2 eval run --patch 4
refuse "reads images" 2 explain --model lenet --data tokens:data
refuse "reads tokens with masks" 2 explain --model bert-tiny --data tokens:data
# A disk that is full before the second file is whole leaves both as they were.
cksum data/*.tokens >before
head -c 8000 text >short
(trap '' XFSZ && ulimit -f 24 && exec "$STRETTO" tokens short text data --overwrite) >out 2>err
got=$?
[ $got = 3 ] || say "a full disk: exit $got: $(cat err)"
cksum data/*.tokens | cmp -s - before || say "a full disk: one of two files was replaced"
[ "$(ls -A data | wc -l)" = 2 ] || say "a full disk left $(ls -A data)"
refuse "No such file" 3 tokens missing none
: >empty
refuse "too little" 3 tokens empty none
mkdir bad && cp data/*.tokens bad
head -c 1000 data/train.tokens >bad/train.tokens
refuse "announces" 3 explain --model gpt2-nano --data tokens:bad
head -c 20 data/train.tokens >bad/train.tokens
refuse "the header alone has 32" 3 explain --model gpt2-nano --data tokens:bad
cp text bad/train.tokens
refuse "not a file of tokens" 3 explain --model gpt2-nano --data tokens:bad
cp data/train.tokens bad/train.tokens
printf '\377\377' | dd of=bad/train.tokens bs=1 seek=132 conv=notrunc 2>dd
refuse "byte 132: token 65535, expected 0 to 255" 3 explain --model gpt2-nano --data tokens:bad
"$STRETTO" explain --model gpt2-nano --data synthetic:kind=text,count=9,test_count=3,seq=16,vocab=1000 >out 2>err || say "explain: $(cat err)"
tr -s ' \n' ' ' <out | grep -q 'an epoch; rows of 16 tokens, a vocabulary of 1,000 ' || say "explain: $(sed -n '/^data/,/^training/p' out)"
exit $failed
