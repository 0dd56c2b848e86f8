# --strategy auto: what explain says of the choice, what simulate makes of it, what check proves, and what is refused.
. "$ROOT/tests/cli/lib.sh"
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

# Clusters: their devices and links decide, and a schedule takes what simulate says of it on that cluster.
cluster() { # FILE LATENCY BANDWIDTH SLOW
    cat >"$1" <<END
classes:
  - {name: a, ranks: 4, gflops_per_s: 10, memory_gib: 8, memory_gb_per_s: 10}
links:
  in_host: {latency_us: $2, bandwidth_gb_per_s: $3}
slow_ranks:
  - {ranks: 3, factor: $4}
END
}
cluster fast.yml 1 100 1
cluster links.yml 1000 0.02 1
cluster rank.yml 1 100 4
taken() { "$STRETTO" explain -n 4 $auto --stages 4 --batch 64 --micro-batches 8 --cluster "$1" 2>err | sed -n 's/^  \([a-z0-9-]* .*\)  *[0-9.]* *m\{0,1\}s .*taken$/\1/p' | tr -s ' '; }
[ -n "$(taken fast.yml)" ] || say "fast.yml: nothing is taken: $(cat err)"
[ "$(taken fast.yml)" != "$(taken links.yml)" ] || say "slow links change nothing: $(taken links.yml)"
[ "$(taken fast.yml)" != "$(taken rank.yml)" ] || say "a slow rank changes nothing: $(taken rank.yml)"
if command -v python3 >/dev/null; then
    for file in fast.yml rank.yml; do
        "$STRETTO" explain -n 4 $auto --stages 4 --batch 64 --micro-batches 8 --cluster $file --json >rows 2>err || say "$file: $(cat err)"
        for schedule in gpipe 1f1b zb-h1; do
            "$STRETTO" simulate $auto --strategy $schedule --stages 4 --batch 64 --micro-batches 8 --cluster $file --json >whole 2>err || say "$file: $(cat err)"
            python3 - $schedule <<'END' || say "$file: $schedule takes another time on its cluster"
import json, sys
row = next(r for r in json.load(open("rows"))["auto"] if r["schedule"] == sys.argv[1])
step = json.load(open("whole"))["step"]
print(row, step)
assert 0.98 * step < row["step"] <= 1.001 * step, (row, step)
END
        done
    done
fi
sed 's/ranks: 4, g/ranks: 3, g/; /slow_ranks/,$d' fast.yml >small.yml
"$STRETTO" explain -n 4 $auto --stages 4 --batch 64 --micro-batches 8 --cluster small.yml >out 2>err
[ $? = 2 ] && grep -qF 'the cluster has 3 ranks, this run has 4' err || say "a cluster that is too small: $(cat err)"

"$STRETTO" check $auto --stages 4 --replicas 2 --batch 64 --micro-batches 8 >out 2>err || say "check: $(cat err)"
grep -q '^proved *auto: 8 ranks' out || say "check says $(cat out)"

answers 5 'no order of the pipeline fits' explain -n 2 $auto --batch 64 --micro-batches 8 --memory-limit 2MiB
answers 2 '--profile has no effect here' train -n 2 --model mlp --device ref --strategy 1f1b --profile nowhere --out run
answers 3 'nowhere' train -n 2 $auto --batch 64 --micro-batches 8 --profile nowhere --out run
answers 2 '--deal replays replicas' explain -n 2 $auto --deal 2x2
[ ! -e run ] || say "a refused run has left a folder"
[ $failed = 0 ]
