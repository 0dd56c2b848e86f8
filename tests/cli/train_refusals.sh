# What train refuses: exit code, a part of the message, at most three lines on standard error and none on standard output.
. "$ROOT/tests/cli/lib.sh"
check() {
    code=$1 part=$2
    shift 2
    answers "$code" "$part" train --device ref --threads 1 --steps 1 --out run "$@"
    [ "$(wc -l <err)" -le 3 ] || say "train $*: a long message: $(cat err)"
    [ ! -s out ] || say "train $*: printed: $(cat out)"
    [ ! -e run ] || { say "train $*: made its folder"; rm -r run; }
}

printf 'not a program\n' >bad.txt
printf 'stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 1 sum replica\ngroups world\nrank 0 body\n#0 r0 STEP g0\n' >empty.txt
printf 'model: resnet8\nmodle: mlp\n' >bad.yml
printf 'rubbish' >bad.safetensors
mkdir folder
while IFS='|' read -r code part line; do
    case $code in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    check "$code" "$part" $line
done <<'END'
# a rendezvous that nobody opened is called what the user called it
4|--init tcp://127.0.0.1:9: rank 0 has not opened it within|--rank 1 --world-size 2 --init tcp://127.0.0.1:9 --join-limit 0.1s
# unknown words, and what was meant
2|did you mean resnet8?|--model resnet
2|one of: mlp|--model xyzzyxyzzy
2|did you mean digits?|--data digit
2|tokens:DIR synthetic|--data xyzzyxyzzy
2|did you mean --batch?|--bacth 3
2|did you mean --momentum?|--momentun 0.9
2|did you mean adam?|--optimizer adamm
2|modle|--config bad.yml
3|nowhere.yml|--config nowhere.yml
# numbers that contradict one another
2|micro-batch|--batch 10 --micro-batches 3
2|micro-batch|--batch 64 --micro-batches 4 --micro-batch-size 8
2|not divisible by 3|--batch 10 --deal 3x1
2|--batch|--batch 0
2|--lr|--lr -1
2|above 0 and at most 1000000000|--time-limit 9.3e9
2|above 0 and at most 1000000000|--join-limit 1e10
2|--lr|--lr nan
2|2000|--batch 2000 --drop-last
# models and data that do not fit
2|error: lenet: images are|--model lenet --image-size 6
2|error: vit-tiny: |--model vit-tiny --image-size 30 --patch 4
2|reads tokens|--model bert-tiny
2|try --data wiki:DIR or synthetic|--model bert-tiny
2|--beta1 has no effect with --optimizer sgd|--model mlp --beta1 0.5
2|--momentum has no effect with --optimizer adamw|--model vit-micro --momentum 0.5
2|--patch has no effect with --model resnet8|--patch 4
2|--seq has no effect with --model lenet|--model lenet --seq 64
2|--conv has no effect with --model vit-micro|--model vit-micro --conv direct
2|--sync-bn has no effect with --model lenet|--model lenet --sync-bn
2|--image-size has no effect with --model bert-tiny|--model bert-tiny --data synthetic --image-size 32
2|--augment flip has no effect with --data synthetic|--data synthetic --augment flip
2|--augment has no effect with --model bert-tiny|--model bert-tiny --data synthetic --augment none
2|--classes has no effect with --model bert-tiny|--model bert-tiny --data synthetic --classes 12
2|reads images|--model mlp --data synthetic:kind=tokens
2|--classes|--classes 5
3|nowhere|--data mnist:nowhere
# programs
3|bad.txt: line 1|--program bad.txt
2|program refused|--program empty.txt
3|nowhere.txt|--program nowhere.txt
2|empty.txt|--save-program empty.txt
2|--conv winograd: device ref has direct convolutions alone|--conv winograd --device ref
2|--conv winograd computes in f32, not in --dtype bf16|--conv winograd --dtype bf16 --device cpu
# memory, predicted
5|largest at the peak|--memory-limit 300K
5|  --micro-batches |--memory-limit 10M --batch 8192 --model mlp
5|would fit: try another --strategy|--memory-limit 1K
END

# Files that are read when the run is set up, before its folder is made.
for line in 3:bad.safetensors 3:nowhere.safetensors 3:folder; do
    rm -rf run
    "$STRETTO" train --model mlp --device ref --steps 1 --out run --quiet --weights "${line#*:}" >out 2>err
    got=$?
    [ $got = "${line%%:*}" ] || { echo "--weights ${line#*:}: exit $got"; failed=1; }
    grep -qF "${line#*:}" err || { echo "--weights: $(cat err)"; failed=1; }
    [ ! -e run ] || { echo "--weights ${line#*:}: made its folder"; failed=1; }
done

# Numeric failure: exit 6, naming step, tensor and operation; nothing that looks like a result.
rm -rf run
"$STRETTO" train --model mlp --device ref --steps 20 --lr 1e30 --warmup 0 --out run --quiet >out 2>err
got=$?
[ $got = 6 ] || { echo "a learning rate of 1e30: exit $got"; failed=1; }
grep -q 'step 2: the loss is nan: .*linear' err || { echo "a learning rate of 1e30: $(cat err)"; failed=1; }
grep -q '"exit": 6' run/summary.json || { echo "the summary does not say exit 6"; failed=1; }
[ ! -e run/model.safetensors ] || { echo "a model was written all the same"; failed=1; }
exit $failed
