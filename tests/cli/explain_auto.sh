# --strategy auto: what explain says of the choice, what simulate makes of it, what check proves, and what is refused.
set -u
failed=0
say() { echo "$*"; failed=1; }
auto="--model resnet8 --device ref --threads 1 --data synthetic --strategy auto"
explain() { "$STRETTO" explain -n 2 $auto --batch 64 --micro-batches 8 "$@" 2>err; }
explain >out || say "plain: $(cat err)"
[ "$(grep -c ' taken$' out)" = 1 ] || say "not one order is taken: $(cat out)"
[ "$(grep -c ' fits$' out)" = 7 ] && grep -q '^  and [0-9]* others, slower: --json' out || say "the best eight: $(cat out)"
grep -A 2 '^auto ' out | tail -n 1 | grep -q 'taken$' || say "the taken one is not first: $(cat out)"
explain --virtual 1 >out && ! grep -q 'in a V' out || say "--virtual 1 has a V: $(cat out err)"
explain --schedule auto --strategy 1f1b >out && grep -q ' taken$' out || say "--schedule auto: $(cat out err)"
"$STRETTO" explain -n 2 $auto --strategy 1f1b >out && ! grep -q '^auto ' out || say "1f1b shows a choice"

# Units: on a V with f = i = w the first rank never idles, 6M + S - 1; and one chunk where nothing is said.
if command -v python3 >/dev/null; then
    step() { "$STRETTO" simulate $auto --batch 32 --micro-batches 8 --json --costs f=1,i=1,w=1 --stages 4 "$@" | python3 -c 'import json, sys; print("%g" % json.load(sys.stdin)["step"])'; }
    [ "$(step --virtual 2)" = 51 ] || say "--virtual 2 takes $(step --virtual 2), not 51"
    [ "$(step)" = 27 ] || say "one chunk takes $(step)"
    explain --json >out && python3 -c 'import json; rows = json.load(open("out"))["auto"]; assert all(r["step"] >= rows[0]["step"] for r in rows), rows; assert {"mp", "gpipe", "1f1b", "zb-h1", "zbv", "v-min"} < {r["schedule"] for r in rows}, rows' || say "a fixed schedule is faster than the taken order"
fi

"$STRETTO" check $auto --stages 4 --replicas 2 --batch 64 --micro-batches 8 >out 2>err || say "check: $(cat err)"
grep -q '^proved *auto: 8 ranks' out || say "check says $(cat out)"

# refused CODE TEXT COMMAND OPTIONS
refused() {
    code=$1 part=$2
    shift 2
    "$STRETTO" "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || say "$*: exit $got, not $code: $(cat err)"
    grep -qF -- "$part" err || say "$*: no '$part' in: $(cat err)"
}
refused 5 'no order of the pipeline fits' explain -n 2 $auto --batch 64 --micro-batches 8 --memory-limit 2MiB
refused 2 '--profile has no effect here' train -n 2 --model mlp --device ref --strategy 1f1b --profile nowhere --out run
refused 3 'nowhere' train -n 2 $auto --batch 64 --micro-batches 8 --profile nowhere --out run
refused 2 '--deal replays replicas' explain -n 2 $auto --deal 2x2
[ ! -e run ] || say "a refused run has left a folder"
[ $failed = 0 ]
