# Frozen blocks from the command line: the commands of docs/elastic.md as they stand, what they leave as it was, checkpoints, and what
# is refused.
. "$ROOT/tests/cli/lib.sh"
page=$ROOT/docs/elastic.md
sed -n 's/^stretto //p' "$page" >commands
[ "$(wc -l <commands)" = 13 ] || say "these are not the commands of the page: $(cat commands)"
while read -r words; do
    case $words in
    "train --model vit-tiny"*) words="explain ${words#train }" ;; # ten epochs of it take minutes
    compare*) ;;
    *) words="$words --threads 1" ;;
    esac
    "$STRETTO" $words >out 2>err </dev/null
    code=$?
    case "$words:$code" in
    "compare base tuned:1") cp out tuned.differs ;;
    *:0) ;;
    *) say "$words: exit $code: $(cat out err)" ;;
    esac
done <commands

# What differs from the base is the last block and the head, and all of it.
grep -oE '^ *[a-z_]+(\.[a-z0-9_]+)+' tuned.differs | tr -d ' ' | sort >differs
grep -vE '^(blocks\.3|norm|head)\.' differs && say "these were frozen: $(cat differs)"
for name in blocks.3.norm1.weight blocks.3.mlp.fc2.bias norm.weight head.weight; do
    grep -qx "$name" differs || say "$name was not trained: $(cat tuned.differs)"
done

# The page shows what explain says.
"$STRETTO" explain --model vit-tiny --data digits --freeze 9 >out 2>err || say "explain: $(cat err)"
sed -n '/^frozen  /,/evaluation: no dropout/p' out >row
[ -s row ] || say "no row: $(cat out)"
while read -r line; do grep -qF -- "$line" "$page" || say "docs/elastic.md does not show: $line"; done <row
"$STRETTO" explain --model vit-tiny --data digits --freeze 9 --json | tr -d ' \n' >out
grep -q '"frozen":{"blocks":9,"of":12,"stages":0,"trained_params":1336906,"tied":null}' out || say "json: $(cat out)"

# Proven, and equal to one device.
data="--data synthetic:size=8,channels=3,count=60,test_count=8 --batch 24 --threads 1"
"$STRETTO" check --numeric --model resnet8 $data --freeze 2 --strategy 1f1b --stages 2 --replicas 2 --micro-batches 3 >out 2>err ||
    say "numeric: $(cat out err)"
grep -q '^equal ' out || say "numeric: $(cat out)"

# Stopped and resumed, on other ranks, it ends as without a stop: with what was frozen, and no other.
freeze="--model resnet8 $data --freeze 2 --micro-batches 2 --epochs 2 --lr-policy const --warmup 0 --quiet"
"$STRETTO" train $freeze --deal 1x2 --out whole 2>err || say "whole: $(cat err)"
"$STRETTO" train $freeze --strategy gpipe -n 2 --stages 2 --steps 2 --save-every 2 --out part 2>err || say "part: $(cat err)"
ends 2 train --out part --resume --freeze 1
grep -q 'freeze' err || say "another --freeze: $(cat err)"
"$STRETTO" train --out part --resume --strategy single --stages 1 -n 1 --deal 1x2 --epochs 2 --steps 1000 --quiet 2>err || say "resume: $(cat err)"
for key in param_hash buffer_hash; do
    [ "$(grep "\"$key\"" whole/summary.json)" = "$(grep "\"$key\"" part/summary.json)" ] || say "resumed, $key differs"
done
"$STRETTO" eval part --quiet >out 2>err || say "eval: $(cat err)"

# What cannot be says why, and what to do.
answers 2 '--freeze 4: model resnet8 has 3 blocks beside its head' explain --model resnet8 --freeze 4
answers 2 '--freeze 3 freezes all of them' explain --model resnet8 --freeze 4
answers 2 'schedule pipedream is never flushed' explain --model resnet8 --freeze 1 --strategy pipedream -n 2 --stages 2
answers 2 '--strategy 1f1b' explain --model resnet8 --freeze 1 --strategy pipedream -n 2 --stages 2
answers 2 '--freeze 1 with --zero-stage 3' explain --model resnet8 --freeze 1 --strategy zero3 -n 2
answers 2 '--freeze 1 with --sync local' explain --model resnet8 --freeze 1 --strategy diloco -n 2
answers 2 '--zero-stage 2' explain --model resnet8 --freeze 1 --strategy zero3 -n 2
"$STRETTO" explain --model resnet8 --freeze 2 --strategy gpipe --stages 2 --save-program saved --quiet 2>err || say "save: $(cat err)"
answers 2 '--freeze 2 with --program saved' train --model resnet8 --freeze 2 --strategy gpipe -n 2 --stages 2 --program saved
answers 2 'the program has 1 frozen stages, this run 0' train --model resnet8 --strategy gpipe -n 2 --stages 2 --program saved --out x
"$STRETTO" check --program saved >out 2>err || say "a saved program is proven: $(cat out err)"
exit $failed
