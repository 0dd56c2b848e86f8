# check: 0 proved, 1 refused, 2 options, 3 unparsable; it says what was proved and leaves nothing behind. train of a
# refused program: 2.
set -u
failed=0
say() { echo "$*"; failed=1; }
mlp="--model mlp --device ref --threads 1 --batch 32"
# answers CODE TEXT ARGUMENTS
answers() {
    code=$1 part=$2
    shift 2
    "$STRETTO" check "$@" >said 2>&1
    got=$?
    [ $got = "$code" ] || say "check $*: exit $got, not $code: $(cat said)"
    grep -qF -- "$part" said || say "check $*: no '$part' in: $(cat said)"
}
# shellcheck disable=SC2086
{
    "$STRETTO" explain $mlp --deal 2x2 --quiet --save-program whole.txt || say "no program was saved"
    answers 0 'proved     single: 1 rank,' $mlp
    answers 0 '4 ranks, 2 stages x 2 replicas, 4 micro-batches each' $mlp --strategy 1f1b --stages 2 --replicas 2 --micro-batches 4
    answers 0 '4 ranks, 2 in a pipeline x 2 replicas, 4 micro-batches each' $mlp --strategy zbv --stages 2 --replicas 2 --micro-batches 4
    answers 0 '"proved": true' $mlp --json
    answers 2 "--strategy: 'waltz' is not allowed" $mlp --strategy waltz
    answers 2 'one would be empty' $mlp --strategy gpipe --stages 200
}
answers 0 'proved     whole.txt' --program whole.txt
sed '/^#3 /d' whole.txt >damaged.txt
answers 1 'program refused by rule 7 at #4 r0 LOAD s0 m1 a0' --program damaged.txt
answers 1 'against #2 r0 F s0 m0 a0' --program damaged.txt --quiet
echo text >other.txt
answers 3 'other.txt: line 1' --program other.txt
answers 3 'nowhere' --program nowhere
# shellcheck disable=SC2086
"$STRETTO" train $mlp --deal 2x2 --steps 1 --program damaged.txt --out run >said 2>&1
[ $? = 2 ] || say "train of a refused program: $(cat said)"
grep -qF 'refused by rule 7' said || say "train says: $(cat said)"
[ "$(ls)" = "$(printf 'damaged.txt\nother.txt\nsaid\nwhole.txt')" ] || say "left behind: $(ls)"
exit $failed
