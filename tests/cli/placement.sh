# --placement gives stages and replicas, and refuses to start a rank on another host than the file says.
. "$ROOT/tests/cli/lib.sh"
run="--model mlp --device ref --threads 1 --strategy 1f1b --micro-batches 2 --batch 16"
printf -- '- [localhost:0, localhost:2]\n- [localhost:1, localhost:3]\n' >here.yml
printf -- '- [nowhere.invalid:0, localhost:0]\n- [nowhere.invalid:1, localhost:1]\n' >there.yml
printf -- '- [localhost:0, localhost:1]\n- [localhost:2, localhost:3]\n' >order.yml
"$STRETTO" train $run --placement here.yml --steps 1 --quiet --out run >out 2>err || say "train: exit $?: $(cat err)"
grep -qx 'stages: 2' run/config.yml && grep -qx 'replicas: 2' run/config.yml || say "$(cat run/config.yml)"
grep -q '"ranks": 4' run/summary.json || say "not 4 ranks"

refused() { # COMMAND FILE WORDS OPTION...
    command=$1 file=$2 words=$3
    shift 3
    "$STRETTO" "$command" $run --placement "$file" "$@" >out 2>err
    [ $? = 2 ] && grep -q "$words" err || say "$command $file $*: $(cat err)"
}
refused train there.yml 'there.yml:1:4: rank 0 (stage 0 of replica 0) belongs on host nowhere.invalid' --steps 1 --out no
refused explain there.yml 'belongs on host nowhere.invalid'
[ ! -e no ] || say "a refused run left its folder"
refused check order.yml 'order.yml:2:4: stage 1 of replica 0 is rank 1, which has place localhost:1, not localhost:2'
refused check here.yml '^stretto: error: --stages 4: --placement here.yml has 2' --stages 4
# Nothing is started: any host will do.
"$STRETTO" simulate $run --placement there.yml >out 2>err || say "simulate: $(cat err)"
grep -q '4 = 2 stages x 2 replicas' out || say "simulate: $(cat out)"
# Ranks started by hand look at their own place: 2 and 3 belong here, 0 does not.
"$STRETTO" train $run --placement there.yml --steps 1 --rank 0 --world-size 4 --init tcp://127.0.0.1:1 --out hand >out 2>err
[ $? = 2 ] && grep -q 'rank 0 (stage 0 of replica 0) belongs on host' err || say "by hand: $(cat err)"
"$STRETTO" explain $run --placement there.yml --rank 2 --world-size 4 --init tcp://127.0.0.1:1 >out 2>err
grep -q 'belongs on host' err && say "rank 2 is here: $(cat err)"
exit $failed
