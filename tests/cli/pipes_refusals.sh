# Options of pipelines that contradict one another or the model: exit 2, what is wrong and what to do in two or three lines, and
# no folder; and a plan that needs no -n.
. "$ROOT/tests/cli/lib.sh"
# refused CODE PART OPTION...
refused() {
    code=$1 part=$2
    shift 2
    for command in "train --out run" explain; do
        # shellcheck disable=SC2086
        answers "$code" "$part" $command --model mlp --device ref --threads 1 --steps 1 "$@"
        [ "$(wc -l <err)" -le 3 ] || { say "$command $*: a long message:"; cat err; }
        [ ! -s out ] || { say "$command $*: printed:"; cat out; }
        [ ! -e run ] || { say "$command $*: made its folder"; rm -r run; }
    done
}
while IFS='|' read -r code part line; do
    case $code in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    refused "$code" "$part" $line
done <<'END'
# grids
2|3 ranks are not 2 stages x 1 replica|--strategy 1f1b -n 3 --stages 2
2|4 ranks are not 2 stages x 3 replicas|--strategy gpipe --stages 2 --replicas 3 -n 4
2|two of -n, --stages and --replicas|--strategy gpipe --stages 3 -n 4
2|--stages 2: --strategy ddp has the whole model on each rank|--strategy ddp -n 2 --stages 2
2|--strategy 1f1b --zero-stage 3, or another pipeline|--strategy zero3 -n 4 --stages 2
2|another pipeline|--stages 2
# steps that overlap
2|--clip 1: without a flush|--strategy pipedream --stages 2 --clip 1
2|a smaller --batch, or --strategy 1f1b|--strategy pipedream --stages 2 --batch 100000
2|--micro-batches 1, or --strategy pipedream-2bw|--strategy pipedream --stages 2 --micro-batches 2
2|needs at least as many as stages, 3|--strategy pipedream-2bw --stages 3 --micro-batches 2
2|--virtual 2: schedule pipedream has 1 stage|--strategy pipedream --stages 2 --virtual 2
2|--virtual 2: schedule pipedream-2bw has 1 stage|--strategy pipedream-2bw --stages 2 --micro-batches 4 --virtual 2
2|--strategy 1f1b --zero-stage N|--strategy pipedream --stages 2 --replicas 2 --zero-stage 1
2|--strategy 1f1b --zero-stage N|--strategy pipedream --stages 2 --zero-stage 1
2|--deal replays replicas on one device|--strategy pipedream --stages 2 --deal 2x1
2|no step has one loss scale|--strategy pipedream --stages 2 --dtype f16
2|none of its micro-batches is the last one|--strategy pipedream --stages 2 --recompute except-last
2|--recompute always|--strategy pipedream --stages 2 --recompute except-last
2|gradients are added by replica|--strategy pipedream --stages 2 --sum tree
2|it acts with --strategy pipedream|--strategy 1f1b --stages 2 --vertical-sync
2|it acts with --strategy pipedream|--strategy pipedream-2bw --stages 2 --micro-batches 2 --vertical-sync
2|replicas do not meet inside a pass|--strategy pipedream --stages 2 --replicas 2 --model resnet8 --sync-bn
2|--untie gives the head|--strategy pipedream --stages 2 --model gpt2-nano --data synthetic
# chunks
2|--virtual 2, or --strategy interleaved|--strategy zbv --stages 2 --virtual 3
2|--virtual 3: schedule zbv has 2 stages|--strategy zbv --stages 2 --virtual 3
2|--virtual 2: schedule gpipe has 1 stage on|--strategy gpipe --stages 2 --virtual 2
2|8 stages of a model with 4 layers|--strategy gpipe --stages 8
2|8 stages of a model with 4 layers|--strategy interleaved --stages 2 --virtual 4
2|fewer --stages|--strategy zbv --stages 4
# cuts
2|--cut 'nothing': the model has no such layer|--strategy gpipe --stages 2 --cut nothing
2|--cut names 2 layers, which makes 3 stages; the run has 2|--strategy gpipe --stages 2 --cut fc1,fc2
2|--cut: 'fc2,fc2' is not allowed|--strategy gpipe --stages 3 --cut fc2,fc2
2|--cut|--strategy gpipe --stages 3 --cut fc3,fc2
2|--cut|--strategy ddp -n 2 --cut fc2
2|activations of 40000 micro-batches|--strategy gpipe --stages 2 --micro-batches 40000 --batch 40000
# orders of sums, which replicas on several ranks do not have
2|--sum tree: 2 replicas on ranks of their own need a power of two of --micro-batches, not 3|--strategy gpipe --stages 2 --replicas 2 --micro-batches 3 --batch 12 --sum tree
2|--micro-batches 4 or 8, or --sum replica|--strategy zbv --stages 2 --replicas 2 --micro-batches 6 --batch 12 --sum tree
2|--sum tree: 2 replicas|--strategy auto --virtual 1 --stages 2 --replicas 2 --micro-batches 3 --batch 12 --sum tree
2|--micro-batches 2 or 4, or --sum replica|--strategy ddp -n 2 --micro-batches 3 --batch 12 --sum tree
2|--sum replicas-first: 2 replicas on ranks of their own need --micro-batches 1, not 2|--strategy 1f1b --stages 2 --replicas 2 --micro-batches 2 --batch 12 --sum replicas-first
2|--zero-stage 2 --zero-accumulate scatter, which adds in this order|--strategy gpipe --stages 2 --replicas 2 --micro-batches 3 --batch 12 --zero-stage 2 --sum replicas-first
2|--sum replicas-first: 2 replicas|--strategy ddp -n 2 --micro-batches 3 --batch 12 --sum replicas-first
# words
2|did you mean gpipe?|--strategy gpip
2|did you mean 1f1b?|--schedule 1f1 --stages 2
2|--balance time needs measured times|--strategy gpipe --stages 2 --balance time
END
# memory: train starts nothing; explain shows the plan all the same
"$STRETTO" train --out run --model mlp --device ref --threads 1 --strategy gpipe --stages 4 -n 4 --memory-limit 2M >out 2>err
[ $? = 5 ] || say "--memory-limit: exit code is not 5"
grep -q -e '--memory-limit is 2.0 MiB' err && [ "$(wc -l <err)" -le 3 ] && [ ! -s out ] && [ ! -e run ] || { say "--memory-limit:"; cat out err; }
# a refused program is told once, however many ranks were to run it, and nothing is written
"$STRETTO" explain --model mlp --strategy 1f1b --stages 2 --micro-batches 2 --quiet --save-program right.txt 2>err || say "--save-program: $(cat err)"
sed 's/ SEND_F / RECV_F /' right.txt >wrong.txt
{ "$STRETTO" train --model mlp --strategy 1f1b -n 2 --micro-batches 2 --program wrong.txt --out run 2>&1 >out; echo $? >code; } | cat >err
[ "$(cat code)" = 2 ] || say "a refused program: exit code is not 2"
grep -q 'refused by rule' err && [ "$(wc -l <err)" = 1 ] && [ ! -e run ] || { say "a refused program:"; cat err; }
# -n follows from stages and replicas
"$STRETTO" explain --model mlp --strategy interleaved --stages 2 --replicas 2 --micro-batches 4 >out 2>err || say "explain without -n: $(cat err)"
grep -q 'ranks  *4 = 2 in a pipeline x 2 replicas' out || { say "no grid"; cat out; }
grep -q 'batch  *64 = 2 replicas x 4 micro-batches x 8 samples' out || { say "no batch equation"; cat out; }
grep -q 'stage  *rank  *from' out || { say "no table of the split"; cat out; }
"$STRETTO" explain --model mlp --strategy gpipe --stages 2 --cut fc3 --show program >out 2>err || say "--cut fc3: $(cat err)"
grep -q '^#[0-9]* r1 RECV_F s1 m0 a0 p0' out || { say "no program of two ranks"; cat out; }
grep -q ' fc3 ' out || { say "the cut is not where it was asked for"; cat out; }
# A short last step cannot be kept: that is told where it was asked for.
for how in "pipedream --stages 2" "diloco -n 2"; do
    # shellcheck disable=SC2086
    answers 0 "" explain --model mlp --device ref --threads 1 --strategy $how --drop-last off
    grep -q -e "--drop-last is on: strategy ${how%% *} leaves out the short last step" err || { say "$how: --drop-last off is ignored:"; cat err; }
    # shellcheck disable=SC2086
    answers 0 "" explain --model mlp --device ref --threads 1 --strategy $how
    ! grep -q drop-last err || { say "$how: tells of --drop-last, which was not given:"; cat err; }
done
exit $failed
