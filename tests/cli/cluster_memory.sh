# With --cluster, memory is judged by its devices and not by this machine: by explain, simulate and check alike. The answer
# stands first, no fit is exit 5, and a rank has one figure on a screen.
. "$ROOT/tests/cli/lib.sh"
cluster() { # FILE MEMORY_OF_THREE MEMORY_OF_THE_LAST
    cat >"$1" <<END
classes:
  - {name: wide, ranks: 3, gflops_per_s: 100, memory_gib: $2, memory_gb_per_s: 10}
  - {name: narrow, ranks: 1, gflops_per_s: 100, memory_gib: $3, memory_gb_per_s: 10}
hosts:
  - {name: a, ranks: 2, count: 2}
links:
  in_host: {latency_us: 1, bandwidth_gb_per_s: 10}
  between_hosts: {latency_us: 10, bandwidth_gb_per_s: 1}
END
}
gib() { python3 -c "print('%.9f' % (($1) / 2**30))"; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
cluster ample.yml 64 32
pipe="--model resnet8 --threads 1 --data synthetic --batch 32 --strategy 1f1b --stages 4 --micro-batches 4"
# run COMMAND OPTION...: the exit code is in $got
run() { "$STRETTO" "$@" $pipe >out 2>err; got=$?; }
# judged CODE WORDS OPTION...: by all three, with these words in the first line.
judged() {
    wanted=$1 words=$2
    shift 2
    for command in 'explain -n 4' simulate check; do
        # shellcheck disable=SC2086
        run $command "$@"
        [ $got = "$wanted" ] || say "$command $*: exit $got, not $wanted: $(cat err)"
        tr '\n' ' ' <out | tr -s ' ' | grep -q "^fits $words" || say "$command $*: the first line is no '$words': $(head -n 2 out)"
        [ "$(grep -c '^fits' out)" = 1 ] || say "$command $*: not one answer"
        [ "$wanted" = 0 ] || grep -q 'largest at the peak' err || say "$command $*: no hint: $(cat err)"
        [ "$(wc -l <err)" -le 3 ] || say "$command $*: more than three lines: $(cat err)"
    done
}
# otherwise CODE OPTION...: the same answer in JSON, and as an exit code alone.
otherwise() {
    wanted=$1
    shift
    for command in 'explain -n 4' simulate check; do
        # shellcheck disable=SC2086
        run $command "$@" --quiet
        [ $got = "$wanted" ] && [ ! -s out ] || say "$command $* --quiet: exit $got: $(cat out)"
        # shellcheck disable=SC2086
        run $command "$@" --json
        [ $got = "$wanted" ] || say "$command $* --json: exit $got"
        python3 - "$wanted" <<'END' || say "$command $* --json: $(head -c 100 out)"
import json, sys
for line in open("out"):
    assert list(json.loads(line).items())[0] == ("fits", sys.argv[1] == "0")
END
    done
}
judged 0 'yes: rank [0-3], which has least room, needs .* its device (narrow of ample.yml) has 32.0 GiB' --cluster ample.yml
otherwise 0 --cluster ample.yml

# The peaks of the ranks, as the plan predicts them; devices that are just short of one.
run explain -n 4 --cluster ample.yml --json
set -- $(python3 -c 'import json; print(*[r["peak_bytes"] for r in json.load(open("out"))["forecast"]["rank"]])')
[ $# = 4 ] || say "not the peaks of four ranks: $*"
last=$4
cluster short.yml 64 "$(gib "$last - 2 * 2**20")"
judged 5 'no: rank 3 needs .* its device (narrow of short.yml) has .*; 1 of 4 ranks do not fit' --cluster short.yml
otherwise 5 --cluster short.yml
cluster tiny.yml 0.001 0.001
judged 5 'no: rank .*; 4 of 4 ranks do not fit' --cluster tiny.yml

# This machine does not count: 4 ranks that need more than it has, on devices that have more.
large="--model resnet20 --threads 1 --strategy ddp --micro-batches 1 --batch 4000000 --data synthetic:size=32,channels=3,count=4000000,test_count=8"
cluster large.yml 1000000 1000000
"$STRETTO" explain --quiet $large -n 4 2>err
[ $? = 5 ] && grep -q 'ranks of this machine would need' err || say "this machine holds terabytes? $(cat err)"
"$STRETTO" explain $large -n 4 --cluster large.yml >out 2>err || say "the cluster's memory does not count: $(cat err)"
! grep -q 'of this machine' out || say "a cluster's ranks are no ranks of this machine: $(cat out)"
cluster mine.yml 64 64
"$STRETTO" explain --model mlp --threads 1 --strategy ddp -n 4 --clock virtual --cluster mine.yml >out 2>err || say "virtual: $(cat err)"
grep -q '^machine .* for the 4 ranks of this machine' out || say "in virtual time a cluster's ranks run on this machine: $(cat out)"

# --memory-limit wins, with and without a cluster.
judged 0 'yes: .* --memory-limit, which stands in for the memory in tiny.yml, is 1.0 GiB' --cluster tiny.yml --memory-limit 1G
judged 5 'no: .* --memory-limit, which stands in for the memory in ample.yml, is 1.0 MiB' --cluster ample.yml --memory-limit 1M
judged 5 'no: .* --memory-limit is 1.0 MiB' --memory-limit 1M
run simulate
[ $got = 0 ] && ! grep -q '^fits' out || say "nothing is given to be compared: $(cat out)"

# One figure for a rank: explain's rows, the forecast's row and its table.
run explain -n 4 --cluster ample.yml
python3 - <<'END' || say "two figures of one rank: $(cat out)"
import re
out = open("out").read()
most = re.search(r"^memory +([\d.]+ .iB) predicted peak of rank (\d)", out, re.M)
forecast = re.search(r"^forecast\n(.*)", out, re.M | re.S)[1]
assert re.search(r"^memory +(.*?) predicted peak of rank (\d)", forecast, re.M).groups() == most.groups(), most
rows = dict(re.findall(r"^ +(\d) .* ([\d.]+ .iB)$", forecast, re.M))
peaks = dict(re.findall(r"rank (\d)\s+([\d.]+\s.iB)", re.search(r"^peaks(.*?)^\w", out, re.M | re.S)[1]))
assert len(rows) == 4 and rows == {k: re.sub(r"\s+", " ", v) for k, v in peaks.items()}, (rows, peaks)
assert rows[most[2]] == most[1], (rows, most)
END

# auto chooses an order that the devices hold, where there is one.
auto() { "$STRETTO" explain -n 4 --model resnet8 --threads 1 --data synthetic --batch 512 --strategy auto --virtual 1 --micro-batches 16 "$@" >out 2>err; }
auto --cluster ample.yml || say "auto: $(cat err)"
auto --cluster ample.yml --json
free=$(python3 -c 'import json; print(json.load(open("out"))["predicted_peak_bytes"])')
cluster tight.yml "$(gib "$free - 2**20")" "$(gib "$free - 2**20")"
auto --cluster tight.yml || say "auto does not heed the devices: $(head -n 2 out; cat err)"

# What cannot be judged is refused.
grep -v narrow ample.yml | sed 's/, memory_gib: 64//' >without.yml
run simulate --cluster without.yml
[ $got = 2 ] && grep -q memory_gib err || say "a cluster without memory: exit $got: $(cat err)"
"$STRETTO" explain -n 4 $pipe --quiet --save-program program.txt || say "no program was saved"
"$STRETTO" check --program program.txt --cluster ample.yml >out 2>err
[ $? = 2 ] && grep -q 'cluster has no effect here' err || say "check of a file: $(cat err)"
# A plan for fewer ranks than the cluster has says so.
run explain --cluster ample.yml -n 4
grep -q 'of ample.yml, 4 of its 4 ranks' out || say "ranks of the cluster: $(grep ^costs out)"
"$STRETTO" simulate --model mlp --cluster ample.yml >out 2>err
grep -q 'of ample.yml, 4 of its 4 ranks' out || say "all ranks of the cluster: $(grep ^costs out)"
"$STRETTO" simulate --model mlp --strategy single --cluster ample.yml >out 2>err
grep -q 'of ample.yml, 1 of its 4 ranks' out || say "ranks of the cluster: $(grep ^costs out)"
run explain --cluster ample.yml --nodes 4
[ $got = 2 ] && grep -q 'by -n alone: all ranks' err || say "nodes of a cluster: exit $got: $(cat err)"
# The answer of docs/cluster.md to "does it fit?", by its own file and commands.
sed -n '/^## Does it fit/,/^## Keys/p' "$ROOT/docs/cluster.md" >fit.md
sed -n '/^```yaml/,/^```$/p' fit.md | grep -v '```' >eight.yml
[ "$(grep -c '^stretto ' fit.md)" = 2 ] || say "docs/cluster.md: these are not two commands: $(cat fit.md)"
sed -n 's/^stretto //p' fit.md >commands
while read -r words; do
    "$STRETTO" $words >out 2>err </dev/null && head -n 1 out | grep -q '^fits *yes: rank 0' || say "$words: $(cat err)"
    grep -q 'of eight.yml, 8 of its 8 ranks' out || say "$words: not all ranks: $(grep ^costs out)"
done <commands
exit $failed
