# The same training again, from what a run wrote: its config.yml, its program; and explain tells of it beforehand.
. "$ROOT/tests/cli/lib.sh"
hash_of() { sed -n 's/^ *"param_hash": "\(.*\)",*$/\1/p' "$1/summary.json"; }
run() {
    out=$1
    shift
    "$STRETTO" train "$@" --out "$out" >"$out.out" 2>"$out.err" || say "$out: exit $?: $(cat "$out.err")"
}
same() { [ -n "$(hash_of "$1")" ] && [ "$(hash_of "$1")" = "$(hash_of "$2")" ] || say "$2 is not the same training as $1"; }
options="--model mlp --device ref --threads 1 --steps 26 --deal 2x2 --sum tree --dropout 0.1 --optimizer adamw --lr-policy linear --warmup 3 --seed 5"

# shellcheck disable=SC2086
run first $options --save-program saved.txt
run config --config first/config.yml
same first config
# shellcheck disable=SC2086
run program $options --program first/program.txt
same first program
cmp -s first/program.txt saved.txt || say "--save-program wrote another program than program.txt"
cmp -s first/config.yml config/config.yml || diff first/config.yml config/config.yml | grep '^[<>]' | grep -v 'out:\|save-program:\|save_program:\|config:' && say "config.yml changed on the way"
# shellcheck disable=SC2086
run other $options --seed 6
[ "$(hash_of first)" != "$(hash_of other)" ] || say "another seed gives the same parameters"

# A program saved is not written over, by train and by explain.
cp saved.txt kept.txt
# shellcheck disable=SC2086
"$STRETTO" explain $options --save-program saved.txt >out 2>err
[ $? = 2 ] && cmp -s saved.txt kept.txt || say "explain wrote over saved.txt"
# shellcheck disable=SC2086
"$STRETTO" explain $options --save-program explained.txt >out 2>err || say "explain --save-program: $(cat err)"
cmp -s explained.txt saved.txt || say "explain saves another program than train"
[ ! -e runs ] || say "explain made a folder"

# explain: one screen, and the parts asked for.
# shellcheck disable=SC2086
"$STRETTO" explain $options >out 2>err || say "explain failed"
[ ! -s err ] || say "explain says: $(cat err)"
[ "$(wc -l <out)" -le 24 ] || say "explain prints more than a screen"
for part in '64 = 2 replicas x 2 micro-batches x 16 samples' 'predicted peak' 'adamw' 'gradient buffer'; do
    grep -qF "$part" out || say "explain: no '$part'"
done
# shellcheck disable=SC2086
"$STRETTO" explain $options --show graph,memory,program >out 2>err || say "explain --show failed"
for part in 'linear_bwd_weight' 'cross_entropy' 'alive at the peak' 'stretto program 5' '#0 r0 COUNT' ' SUM s0 g'; do
    grep -qF -- "$part" out || say "explain --show: no '$part'"
done

# compare takes runs as well as files.
"$STRETTO" compare first first/model.safetensors >out 2>err && grep -q 'equal to the last bit' out || say "compare of a run: $(cat out err)"

# Whoever looks on may go, and the disk of a log may fill up: the run goes on.
{ "$STRETTO" train --model mlp --device ref --epochs 3 --out piped 2>/dev/null; echo $? >code; } | true
[ "$(cat code)" = 0 ] && grep -q '"exit": 0' piped/summary.json || say "a closed pipe: exit $(cat code)"
if [ -w /dev/full ]; then
    "$STRETTO" train --model mlp --device ref --steps 2 --out full >/dev/full 2>err || say "a full standard output: exit $?"
    grep -q 'warning: standard output' err || say "a full standard output goes unnoticed"
fi

# What one rank has no use for is said, also when quiet; a script may count ranks up from one.
"$STRETTO" train -n 1 --comm shm --restarts 2 --model mlp --device ref --steps 1 --quiet --out alone 2>err || say "-n 1 --comm shm: exit $?"
grep -q 'warning: a run of one rank: no effect of --comm, --restarts' err || say "-n 1 --comm shm: $(cat err)"
RANK=0 WORLD_SIZE=2 "$STRETTO" train --strategy dp --init tcp://127.0.0.1:1 --steps 1 --out never 2>err && say "dp as one of two processes"
grep -q '2 ranks were started as processes' err || say "dp as one of two processes: $(cat err)"

# --quiet prints nothing at all.
"$STRETTO" train --model mlp --device ref --steps 2 --quiet --out quiet >out 2>err || say "--quiet failed"
[ ! -s out ] && [ ! -s err ] || say "--quiet printed: $(cat out err)"
# --steps 0 evaluates the initial parameters; --epochs 0 too.
run zero --model mlp --device ref --steps 0
grep -q '"steps": 0' zero/summary.json || say "--steps 0 made steps"
exit $failed
