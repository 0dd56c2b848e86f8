# What the environment says of OpenMP's teams does not change a run: it has the team of --threads, or is refused.
set -u
failed=0
hash_of() { sed -n 's/^ *"param_hash": "\(.*\)",*$/\1/p' "$1/summary.json"; }
train() { timeout -k 5 120 "$STRETTO" train --threads 2 --batch 16 --quiet --eval-every never --save-every never "$@"; }
# check NAME OPTION...: the same parameters under every setting.
check() {
    name=$1
    shift
    train "$@" --out "$name" || { echo "$name: exit $?"; exit 1; }
    for setting in OMP_MAX_ACTIVE_LEVELS=0 OMP_DYNAMIC=true OMP_NUM_THREADS=1 OMP_NESTED=false OMP_STACKSIZE=16k GOMP_STACKSIZE=20; do
        (export "${setting?}" && train "$@" --out "$name-$setting") || { echo "$name, $setting: exit $?"; failed=1; continue; }
        [ "$(hash_of "$name")" = "$(hash_of "$name-$setting")" ] || { echo "$name, $setting: other parameters"; failed=1; }
    done
}
check mlp --model mlp --batch 64 --steps 20
check resnet8 --model resnet8 --steps 2
check vit-micro --model vit-micro --steps 2
check threads --model resnet8 --steps 2 -n 2 --spawn threads
check dp --model mlp --batch 64 --steps 4 -n 2 --strategy dp
check processes --model mlp --batch 64 --steps 4 -n 2
for ranks in '' '-n 2' '-n 2 --spawn threads'; do
    # shellcheck disable=SC2086
    OMP_THREAD_LIMIT=1 train --model resnet8 --steps 2 $ranks --out limit >out 2>err
    code=$?
    [ $code = 2 ] || { echo "OMP_THREAD_LIMIT=1 $ranks: exit $code, not 2"; failed=1; }
    grep -q 'threads 2: OpenMP runs a team of 1' err || { echo "no word of the team:"; cat err; failed=1; }
    [ ! -e limit ] || { echo "a folder of a run that was refused"; rm -r limit; failed=1; }
done
(ulimit -s 48 && train --model mlp --steps 1 --out stack) >out 2>err
code=$?
[ $code = 2 ] && grep -q 'the limit of the stack is 48 KiB' err || { echo "ulimit -s 48: exit $code: $(cat err)"; failed=1; }
exit $failed
