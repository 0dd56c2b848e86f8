# The runner of the equality matrix sees what is not equal, goes on behind a cell that hangs or kills its process, and says so.
. "$ROOT/tests/train/lib.sh"
equal=$ROOT/$B/equal
mlp="--model mlp --data synthetic:size=8,count=24,test_count=8 --device ref --batch 12 --steps 2"
expect() { # LINES WORDS: so many lines of "out" have these words
    [ "$(grep -c -e "$2" out)" = "$1" ] || { echo "not $1 x '$2':"; cat out; exit 1; }
}
cat >cells <<EOF
# a comment

2 $mlp --strategy gpipe --stages 2 --micro-batches 2 | $mlp --deal 1x2
2 $mlp --strategy gpipe --stages 2 --micro-batches 2 | $mlp --deal 1x2 --seed 1
2 $mlp --strategy gpipe --stages 2 --micro-batches 4 | $mlp --deal 4x1
2 $mlp --strategy gpipe --stages 2 | refused
8 $mlp --strategy gpipe --stages 8 | refused
8 $mlp --strategy gpipe --stages 8 | $mlp
this is not a cell
EOF
"$equal" -v <cells >out && { echo "differences were taken for equal"; cat out; exit 1; }
expect 2 '^ok  '
expect 5 '^not ok  '
expect 2 ': other parameters'
expect 1 ': not refused'
expect 1 ': not a cell'
expect 1 '8 stages of a model with 4 layers'
expect 1 '^2 cells equal, 5 not'
"$equal" </dev/null >out && { echo "nothing at all was taken for equal"; exit 1; }
# A cell that does not end, and a child that is gone: reported, and another child runs those behind it.
{
    echo "2 $mlp --steps 1000000 --strategy gpipe --stages 2 --micro-batches 2 | $mlp --deal 1x2"
    sed -n 3p cells
} >two
"$equal" -l 1 <two >out && { cat out; exit 1; } # the second may be slow, too, on a busy machine
expect 1 '^not ok  .*--steps 1000000 .*: no answer'
expect 1 '^[01] cells equal, [12] not'
"$equal" -v <two >out &
runner=$!
tries=0 child=
until [ -n "$child" ] || [ $tries = 100 ]; do
    sleep 0.1
    tries=$((tries + 1)) child=$(grep -ls "^PPid:[[:blank:]]*$runner\$" /proc/[0-9]*/status | head -n 1 | tr -dc 0-9)
done
kill -9 "$child" || { kill $runner; exit 1; }
wait $runner && { cat out; exit 1; }
expect 1 '^not ok  .*: ended its process, status 0x9'
expect 1 '^1 cells equal, 1 not'
