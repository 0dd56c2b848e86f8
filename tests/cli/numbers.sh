# One of something is never in the plural, in what commands print and refuse: "1 steps", "1 rank(s)".
. "$ROOT/tests/cli/lib.sh"
plain() { # WHAT FILE...
    what=$1
    shift
    grep -hE '\b1 [a-z-]+s\b|\(s\)' "$@" | grep -vE '(^|[^0-9])([0-9.,]*[0-9.,]|of|rank|stage|step|epoch|core|zero-stage|ZeRO|stretto) ?1 |1 (is|was|has|does|sends|drives|steps back|needs|ends|less)\b' >found && say "$what: $(cat found)"
    grep -hE '(^|[ (])1 (steps|ranks|stages|replicas|samples|micro-batches|instructions|tensors|threads|layers|buckets|slots|checkpoints|epochs|chunks|cores|events|rows|others)\b' "$@" && say "$what"
}
tiny="--model mlp --device ref --threads 1 --data synthetic:size=8,count=8,test_count=1 --batch 8 --steps 1"
for command in explain simulate check; do
    for options in "" "-n 1 --strategy ddp" "--strategy 1f1b --stages 2" "--strategy rpc --stages 1" "--strategy zbv --stages 2 --micro-batches 1" "--strategy zero1 -n 2"; do
        # shellcheck disable=SC2086
        "$STRETTO" $command $tiny $options >out 2>err || say "$command $options: $(cat err)"
        plain "$command $options" out err
    done
done
# shellcheck disable=SC2086
"$STRETTO" train $tiny --out run >out 2>err || say "train: $(cat err)"
plain train out err
# refusals
# shellcheck disable=SC2086
for options in "--strategy gpipe -n 3 --replicas 2" "--strategy gpipe --stages 9" "--strategy gpipe --stages 3 --cut fc2" "--strategy rpc --stages 3 -n 2" "--strategy gpipe --stages 2 --virtual 3" "--strategy zero2 -n 4 --stages 2"; do
    "$STRETTO" explain $tiny $options >out 2>err && say "$options: not refused"
    plain "$options" out err
done
rm run/summary.json run/model.safetensors
"$STRETTO" train --resume --out run --steps 0 >out 2>err && say "fewer steps: not refused"
plain resume out err
exit $failed
