# check: 0 proved, 1 refused, 2 options, 3 unparsable; it says what was proved and leaves nothing behind. train of a
# refused program: 2.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 32"
proves() { code=$1 part=$2 && shift 2 && tells "$code" "$part" check "$@"; } # CODE PART ARGUMENT...
# shellcheck disable=SC2086
{
    "$STRETTO" explain $mlp --deal 2x2 --quiet --save-program whole.txt || say "no program was saved"
    proves 0 'proved     single: 1 rank,' $mlp
    proves 0 '4 ranks, 2 stages x 2 replicas, 4 micro-batches each' $mlp --strategy 1f1b --stages 2 --replicas 2 --micro-batches 4
    proves 0 '4 ranks, 2 in a pipeline x 2 replicas, 4 micro-batches each' $mlp --strategy zbv --stages 2 --replicas 2 --micro-batches 4
    proves 0 '"proved": true' $mlp --json
    proves 0 'read one version of the weights, at most 2 updates old' $mlp --strategy pipedream --stages 3
    proves 0 '"staleness": 1' $mlp --strategy pipedream-2bw --stages 3 --micro-batches 4 --json
    proves 2 "--strategy: 'waltz' is not allowed" $mlp --strategy waltz
    proves 2 'one would be empty' $mlp --strategy gpipe --stages 200
}
proves 0 'proved     whole.txt' --program whole.txt
sed '/^#3 /d' whole.txt >damaged.txt
proves 1 'program refused by rule 7 at #4 r0 LOAD s0 m1 a0' --program damaged.txt
proves 1 'against #2 r0 F s0 m0 a0' --program damaged.txt --quiet
echo text >other.txt
proves 3 'other.txt: line 1' --program other.txt
proves 3 'nowhere' --program nowhere
# shellcheck disable=SC2086
"$STRETTO" train $mlp --deal 2x2 --steps 1 --program damaged.txt --out run >said 2>&1
[ $? = 2 ] || say "train of a refused program: $(cat said)"
grep -qF 'refused by rule 7' said || say "train says: $(cat said)"
[ "$(ls)" = "$(printf 'damaged.txt\nother.txt\nsaid\nwhole.txt')" ] || say "left behind: $(ls)"
exit $failed
