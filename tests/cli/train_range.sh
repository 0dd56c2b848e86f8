# --lr-policy range: the rate grows, the run ends where the loss comes apart, and a rate is suggested.
. "$ROOT/tests/cli/lib.sh"
set -- --model mlp --lr-policy range --steps 160 --eval-every never --save-every never --device ref --threads 1
"$STRETTO" train "$@" --out run >out 2>err || say "train: $(cat err)"
cp err err1
grep -q "range test: over at step 1[0-9][0-9]: at a learning rate of" err || say "it did not end early: $(cat err)"
tr '\n' ' ' <out | grep -q "a good peak: --lr 0.0[0-9]*\." || say "nothing is suggested: $(tail -n 3 out)"
grep -q 'is a good peak: --lr 0.0' run/report.html || say "the report suggests nothing"
grep -q 'Loss against the learning rate over learning rate' run/report.html || say "the report draws nothing"
[ "$(grep -c 'class="panel"' run/report.html)" -gt "$(grep -c '"xname">step<' run/report.html)" ] || say "its axis is of steps"
grep -q '"xname">learning rate<' run/report.html && say "the name of its axis lies on the first tick"
steps=$(grep -c '"kind":"train"' run/metrics.jsonl)
[ "$steps" -gt 100 ] && [ "$steps" -lt 160 ] || say "$steps rows of metrics"
head -n 1 run/metrics.jsonl | grep -q '"lr":1e-0*7' || say "it begins at: $(head -n 1 run/metrics.jsonl)"
"$STRETTO" train "$@" -n 2 --out ranks >out 2>err2 || say "two ranks: $(cat err2)"
grep -q "range test: over at step" err2 || say "two ranks did not end early: $(cat err2)"
refuse() { # words: options
    words=$1
    shift
    "$STRETTO" explain --model mlp "$@" >out 2>err
    got=$?
    [ $got -eq 2 ] || say "$*: exit $got, expected 2"
    grep -q -e "$words" err || say "$*: says $(cat err)"
}
refuse "range has no warm-up" --lr-policy range --warmup 3
refuse "lr-min 0.5 is not below --lr 0.1" --lr-policy range --lr 0.1 --lr-min 0.5
refuse "no effect with --lr-policy cosine" --lr-min 1e-5
"$STRETTO" explain --model mlp --lr-policy range >out 2>err
grep -q "lr 1e-07 to 10, range" out || say "explain: $(grep training out)"
grep -q "240 steps pass the data 10 times" err || say "explain: $(cat err)"
"$STRETTO" explain --model mlp --lr-policy range --epochs 5 >out 2>err
grep -q "pass the data" err && say "five epochs: $(cat err)"
grep -q "160 steps pass the data 7 times" err1 || say "train: $(cat err1)"
exit $failed
