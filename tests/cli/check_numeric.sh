# check --numeric: 0 the program trains as one device does, 1 it does not, and what differs is said; a file too; nothing is left behind.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 12 --data synthetic:size=8,count=24,test_count=8"
compares() { code=$1 part=$2 && shift 2 && tells "$code" "$part" check --numeric "$@"; } # CODE PART ARGUMENT...
# shellcheck disable=SC2086
{
    pipe="$mlp --strategy 1f1b --stages 2 --micro-batches 3"
    compares 0 'equal      3 steps of 1 rank are to the bit those of single --deal 1x1 --sum replica: param_hash ' $mlp
    compares 0 '3 steps of 4 ranks are to the bit those of single --deal 2x3 --sum replica' $pipe --replicas 2
    compares 0 '5 steps of 3 ranks are to the bit those of single --deal 1x2 --sum replica' $mlp --strategy rpc --stages 2 --micro-batches 2 --steps 5
    compares 0 '--deal 2x3 --sum replicas-first' $mlp --strategy zero3 --replicas 2 --micro-batches 3 --zero-accumulate scatter
    compares 0 '--deal 2x2 --sum tree' $mlp -n 2 --micro-batches 2 --sum tree
    compares 0 '"equal": true' $pipe --json
    compares 0 'equal ' --model resnet8 --threads 2 --batch 12 --data synthetic:size=8,count=24,test_count=8 -n 2 --sync-bn
    "$STRETTO" explain $pipe --quiet --save-program pipe.txt || say "no program was saved"
    compares 0 'equal      3 steps of 2 ranks' $pipe --program pipe.txt
    compares 2 'the program has ranks 2, this run 1' $mlp --program pipe.txt
    sed '/^#3 /d' pipe.txt >damaged.txt
    compares 1 'program refused by rule' $pipe --program damaged.txt
    grep -q 'equal\|differs' said && say "a refused program was run: $(cat said)"
    compares 2 'passes that wait compute nothing' $pipe --delay f=1ms,b=1ms
    # As train would: the hash is that of a run of as many steps.
    "$STRETTO" train $pipe --strategy 1f1b -n 2 --steps 3 --quiet --out run || say "train failed"
    hash=$(sed -n 's/.*"param_hash": *"\([0-9a-f]*\)".*/\1/p' run/summary.json)
    compares 0 "param_hash $hash" $pipe
    rm -r run
    # One bit of one parameter, on one rank.
    export STRETTO_FAULT=rank=1,step=3,at=STEP,do=flip
    compares 1 'differs    3 steps of 2 ranks are not those of single --deal 1x3 --sum replica: ' $pipe
    grep -q '\.bias differs first, 1 of [0-9]* elements, by at most [0-9.e-]*$' said || say "which one: $(cat said)"
    compares 1 'differs ' $pipe --quiet
    compares 1 '"equal": false' $pipe --json
    compares 1 'replica 1 has other parameters than replica 0' $mlp -n 2
}
[ "$(ls)" = "$(printf 'damaged.txt\npipe.txt\nsaid')" ] || say "left behind: $(ls)"
exit $failed
