# Whole command lines: exit code, and a part of what is printed. A row: code | out or err | part | arguments.
# Messages are at most three lines; the other stream stays empty.
set -u
failed=0

check() {
    code=$1 stream=$2 part=$3
    shift 3
    "$STRETTO" "$@" >out 2>err
    got=$?
    other=err
    [ "$stream" = err ] && other=out
    [ "$got" = "$code" ] || { echo "stretto $*: exit $got, not $code"; failed=1; }
    grep -qF -- "$part" "$stream" || { echo "stretto $*: no '$part' in:"; cat "$stream"; failed=1; }
    [ ! -s "$other" ] || { echo "stretto $*: unexpected in $other:"; cat "$other"; failed=1; }
    [ "$stream" = out ] || [ "$(wc -l <err)" -le 3 ] || [ $# = 0 ] || { echo "stretto $*: long message"; failed=1; }
}

check 2 err 'usage: stretto COMMAND'
while IFS='|' read -r code stream part line; do
    case $code in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    check "$code" "$stream" "$part" $line
done <<'END'
0|out|usage: stretto COMMAND|--help
0|out|usage: stretto COMMAND|-h
0|out|usage: stretto COMMAND|help
0|out|stretto 0.|--version
0|out|usage: stretto compare [options] A.safetensors B.safetensors|compare --help
0|out|usage: stretto doctor|help doctor
0|out|usage: stretto doctor|doctor --help
0|out|usage: stretto help|help --help
0|out|  resnet18-cifar   |train --help
2|err|did you mean: stretto check --program /dev/null|check /dev/null
2|err|usage: stretto check [options]|check nowhere.txt
2|err|did you mean: stretto train --resume --out /tmp|train --resume /tmp
2|err|did you mean: stretto predict --input /dev/null|predict runs/first /dev/null
2|err|did you mean --workers?|train --num-workers 2
2|err|did you mean zero3?|explain --strategy fsdp
2|err|did you mean --strategy zero3?|train --fsdp
2|err|did you mean --lr?|train --learning_rate=0.1
2|err|there is no tensor parallelism here|simulate --tensor-parallel 2
2|err|did you mean --epochs?|train --num-epochs 2
2|err|did you mean --weights?|train --pretrained r18.safetensors
0|out|  synthetic[:key=value,...]|help explain
0|out|(10s)|train --help
0|out|sends 80.0 KiB|explain -n 2 --model mlp
0|out|program    9 instructions|explain -n 2 --model mlp
0|out|program    9 instructions|explain -n 2 --strategy dp --model mlp
0|out|program    8 instructions|explain --model mlp
0|out|lr 0.01, cosine|explain --model mlp
0|out|lr 0.01, cosine|explain -n 4 --model mlp
0|out|64 = 4 replicas x 1 micro-batch x 16 samples|explain -n 4 --model mlp
2|err|--model: 'resnet' is not allowed; did you mean resnet8?|launch --emit sbatch --model resnet
2|err|--strategy: 'dpp' is not allowed; did you mean dp?|launch --emit sbatch --strategy dpp
2|err|-n 2 asks for several ranks, but --strategy single runs on one|launch --emit sbatch -n 2 --strategy single
2|err|--nodes asks for several ranks, but --strategy single runs on one|launch --emit sbatch --nodes 2 --strategy single
2|err|srun starts ranks as processes|launch --emit sbatch -n 2 --strategy dp
0|out|--strategy single|launch --emit sbatch --nodes 1 --strategy single
2|err|--nodes asks for other processes|explain -n 2 --strategy dp --nodes 2 --model mlp
0|out|1 replica x 1 micro-batch x 64 samples|explain --model mlp
0|out|complete -o filenames|completion bash
0|out|--micro-batch-size|help --markdown
2|err|did you mean doctor?|docter
2|err|did you mean doctor?|help docter
2|err|did you mean resnet18-cifar?|explain --model resnet18-cifa
2|err|one of: mlp, lenet, resnet8|explain --model nothing
2|err|did you mean vit-tiny?|explain --model vit_tiny_patch16_224
2|err|did you mean -n, --local-ranks?|train --ranks 2
2|err|did you mean --lr?|train --learning-rate 1
2|err|did you mean --rank?|train --ranc 2
2|err|unknown command|zzz
2|err|unknown command|--frobnicate
2|err|unexpected argument|help doctor help
2|err|completion needs: bash|completion
2|err|more: stretto eval --help|eval
0|out|#compdef stretto|completion zsh
2|err|not a known shell|completion fish
2|err|did you mean --json?|doctor --jsno
2|err|--json: 'x' is not allowed|doctor --json=x
2|err|not an option of doctor|doctor --lr 1
2|err|unexpected argument|doctor please
2|err|compare needs: A.safetensors B.safetensors|compare a
3|err|nowhere-a: cannot open|compare nowhere-a nowhere-b
END

# The answer of explain --quiet is its exit code; a usage line has no loose end.
"$STRETTO" explain --model mlp --quiet --show graph >out 2>err && [ ! -s out ] && [ ! -s err ] || { echo "explain --quiet: $(cat out err)"; failed=1; }
"$STRETTO" doctor please 2>err
grep -q '  usage: stretto doctor \[options\]$' err || { echo "doctor please: $(cat err)"; failed=1; }

# A device that takes no byte: the answer was not delivered, so it is no success.
if [ -w /dev/full ]; then
    "$STRETTO" help >/dev/full 2>err
    code=$?
    [ $code = 3 ] || { echo "a full standard output: exit $code, not 3"; failed=1; }
    grep -q 'standard output' err || { echo "a full standard output goes unnoticed"; failed=1; }
fi
exit $failed
