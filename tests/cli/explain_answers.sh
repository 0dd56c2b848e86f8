# explain answers as train would on this machine: the same exit code and the same message, and it leaves nothing behind.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --batch 32 --steps 1"
# without_sizes FILE: what a process takes is measured, and may differ by a page from the next one's.
without_sizes() { sed 's/[0-9.]* [KMG]iB/SIZE/g' "$1"; }
# both CODE TEXT ARGUMENTS: what explain --quiet answers, then train, which must not start.
both() {
    code=$1 part=$2
    shift 2
    ls -AR >before
    # shellcheck disable=SC2086
    "$STRETTO" explain $mlp --quiet "$@" >out 2>explained
    got=$?
    [ $got = "$code" ] || say "explain $*: exit $got, not $code: $(cat explained)"
    grep -qF -- "$part" explained || say "explain $*: no '$part' in: $(cat explained)"
    [ ! -s out ] || say "explain --quiet $*: printed $(cat out)"
    # shellcheck disable=SC2086
    "$STRETTO" train $mlp --quiet "$@" >out 2>trained
    got=$?
    [ $got = "$code" ] || say "train $*: exit $got, not $code: $(cat trained)"
    [ "$(without_sizes explained)" = "$(without_sizes trained)" ] || say "$*: explain says '$(cat explained)', train '$(cat trained)'"
    ls -AR | diff before - | grep -v 'explained\|trained\|out$' | grep '^[<>]' && say "$*: left something behind"
}
touch before explained trained out

# shellcheck disable=SC2086
"$STRETTO" train $mlp --out run --quiet || say "a run failed"
echo text >file
both 2 'holds a run already' --out run
both 2 'exclude one another' --out run --resume --overwrite
both 2 'file' --out file
both 3 'file/below' --out file/below
both 3 '/proc/run' --out /proc/run
both 3 'File name too long' --out "$(printf '%0300d' 0)/run"
both 2 'program.txt' --out new --save-program run/program.txt
both 5 'largest at the peak' --out new --memory-limit 1K
both 2 "--model: 'nothing' is not allowed" --out new --model nothing
both 3 'nowhere' --out new --data mnist:nowhere
both 3 'nowhere.safetensors' --out new --weights nowhere.safetensors
both 3 'nowhere/p: cannot write' --out new --save-program nowhere/p
mkdir bare && mkfifo pipe && printf rubbish >rubbish
"$STRETTO" train --model resnet8 --device ref --threads 1 --batch 8 --steps 1 --eval-every never --out other --quiet || say "a run failed"
for ranks in 1 2; do
    both 3 'bare: no model.safetensors in this folder' -n $ranks --out new --weights bare
    both 3 'pipe' -n $ranks --out new --weights pipe
    both 3 '/dev/null' -n $ranks --out new --weights /dev/null
    both 3 'rubbish' -n $ranks --out new --weights rubbish
    both 3 'tensors fits the model' -n $ranks --out new --weights other
done
both 2 'seed was 0, this run has 9' --out run --resume --seed 9
cp -r run damaged && echo x >>damaged/checkpoints/step-00000001/optimizer.safetensors
mkdir damaged/checkpoints/.step-00000002.tmp
"$STRETTO" explain --quiet --out damaged --resume 2>err
[ $? = 3 ] && [ -d damaged/checkpoints/.step-00000002.tmp ] || say "explain --resume: $(cat err)"
rmdir damaged/checkpoints/.step-00000002.tmp
both 3 'none of 1 checkpoint is whole' --out damaged --resume
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    both 3 'locked' --out locked
    both 3 'locked/run' --out locked/run
fi

# Ranks and where they meet. 192.0.2.1 is nobody's address.
both 2 '--nodes 2 needs --node-rank' --out new --nodes 2 --init tcp://192.0.2.1:29500
both 2 '--nodes 2 needs --init' --out new --nodes 2 --node-rank 0
both 2 'between hosts needs a key' --out new --nodes 2 --node-rank 1 --init tcp://192.0.2.1:29500
both 3 'job.key' --out new --nodes 2 --node-rank 0 --init tcp://192.0.2.1:29500 --key job.key
"$STRETTO" key job.key >/dev/null || say "no key"
both 2 '192.0.2.1' --out new --nodes 2 --node-rank 0 --init tcp://192.0.2.1:29500 --key job.key
both 2 'an unknown kind of address' --out new --nodes 2 --node-rank 0 --init http://here
both 2 '--world-size is set but --rank is not' --out new --world-size 2
both 2 'need a rendezvous' --out new --rank 0 --world-size 2
both 2 '--rank 2 is not below' --out new --rank 2 --world-size 2 --init tcp://127.0.0.1:1
both 2 'asks for other processes' --out new --strategy dp --nodes 2
[ ! -e new ] || say "a refused run made its folder"

# A folder that is being written to.
(
    "$STRETTO" train --model mlp --device ref --threads 1 --batch 32 --steps 1000000000 --eval-every never --save-every never --out busy >/dev/null 2>&1 &
    echo $! >pid
    wait
) &
tries=400
until [ -s busy/metrics.jsonl ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { say "the run does not begin"; break; }
    sleep 0.05
done
both 2 'is being written by another run' --out busy --overwrite
both 2 'is being written by another run' --out busy --resume
kill -TERM "$(cat pid)"
wait

# What train takes, explain takes; a plan that is refused is shown all the same.
for options in "--out new" "--out new --weights run" "--out new --save-program new.txt" "--out new/below/it" "--out run --overwrite" "--out run --resume" "" "-n 2 --out new" "--strategy dp -n 2 --out new" \
    "--nodes 2 --node-rank 1 --init tcp://192.0.2.1:29500 --key job.key --out new" "--rank 1 --world-size 2 --init tcp://127.0.0.1:1 --out run"; do
    # shellcheck disable=SC2086
    "$STRETTO" explain $mlp --quiet $options >out 2>err || say "explain $options: exit $?: $(cat err)"
done
[ -s new.txt ] || say "explain did not save the program"
# shellcheck disable=SC2086
"$STRETTO" train $mlp --quiet --out inside --save-program inside/p && [ -s inside/p ] || say "no program in the folder of the run"
[ ! -e new ] && [ ! -e runs ] || say "explain made a folder"
[ -s run/summary.json ] || say "explain --overwrite removed the run"
# shellcheck disable=SC2086
"$STRETTO" explain $mlp --out run >out 2>err
grep -q '^memory ' out || say "a refused plan is not shown: $(cat out)"
exit $failed
