# --device cuda on GPUs that are not there (tests/stub): which GPU a rank takes, and what is refused, in at most three lines.
. "$ROOT/tests/cli/lib.sh"
case $B in /*) ;; *) B=$ROOT/$B ;; esac
if ! grep -q '^HAVE_CUDA := 1' "$B/config.mk"; then
    echo "this build has no CUDA"
    exit 77
fi
export LD_LIBRARY_PATH="$B/cuda-stub" STUB_GPUS=90,90
unset CUDA_VISIBLE_DEVICES NCCL_HOSTID
options="--data synthetic:size=8,count=64,test_count=8 --batch 8 --steps 3 --model mlp --overwrite"
three_lines() { [ "$(wc -l <err)" -le 3 ] || say "more than three lines: $(cat err)"; }
refused() { # CODE TEXT [NAME=VALUE...] -- OPTIONS
    code=$1 text=$2
    shift 2
    given=
    while [ "$1" != -- ]; do
        given="$given $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    env $given "$STRETTO" train $options --out refused "$@" >out 2>err
    was=$?
    [ $was = "$code" ] || say "$given $*: ends with $was, not $code: $(cat err)"
    grep -qF -- "$text" err || say "$given $*: no '$text' in: $(cat err)"
    three_lines
    [ ! -e refused/summary.json ] || say "$given $*: a run that was refused leaves results"
}
# contexts NAME=VALUE... -- OPTIONS: the GPUs that a training opens, in order
contexts() {
    given=
    while [ "$1" != -- ]; do
        given="$given $1"
        shift
    done
    shift
    rm -f log
    # shellcheck disable=SC2086
    env $given STUB_LOG="$PWD/log" "$STRETTO" train $options --out run "$@" >out 2>err || say "$given $*: $(cat err)"
    sort -u log | sed 's/context //' | tr '\n' ' '
}

# A training runs to its end; what the driver says of the GPU is in the results.
[ "$(contexts -- --device cuda)" = "0 " ] || say "cuda is not the first GPU"
grep -q '"device": *"cuda"' run/summary.json && grep -q '"isa": *"sm_90"' run/summary.json || say "summary: $(cat run/summary.json)"

# Its memory after load, forward, backward and update is in the summary, in the trace and in the report.
grep -q '"device_bytes": {"load": [1-9][0-9]*, "forward": [1-9][0-9]*, "backward": [1-9][0-9]*, "update": [1-9][0-9]*}' run/summary.json ||
    say "memory by phase: $(grep device_bytes run/summary.json)"
grep -q '"name":"F".*"device_kib":[1-9]' run/trace.json || say "no memory in the trace: $(grep -m 1 '"F"' run/trace.json)"
grep -q "Memory taken of rank 0's GPU after load .* forward .* backward .* update " run/report.html || say "no memory in the report"

# Ranks take the GPUs of the list in turn; CUDA_VISIBLE_DEVICES hides some, and orders them, also by UUID.
[ "$(contexts -- --device cuda:1)" = "1 " ] || say "cuda:1 is not the second GPU: $(cat log)"
[ "$(contexts -- --device cuda:1,0 -n 2 --spawn threads)" = "0 1 " ] || say "two ranks: $(cat log)"
[ "$(contexts -- --device cuda:1 -n 2 --spawn threads)" = "1 " ] || say "two ranks on one GPU: $(cat log)"
[ "$(contexts CUDA_VISIBLE_DEVICES=1 -- --device cuda)" = "1 " ] || say "the GPU that is visible: $(cat log)"
[ "$(contexts CUDA_VISIBLE_DEVICES=1,0 -- --device cuda:1)" = "0 " ] || say "visible in another order: $(cat log)"
uuid=GPU-00000002-1111-2222-3333-444444444444
[ "$(contexts CUDA_VISIBLE_DEVICES=$uuid -- --device cuda)" = "1 " ] || say "visible by UUID: $(cat log)"
[ "$(contexts STUB_MIG=1 CUDA_VISIBLE_DEVICES=MIG${uuid#GPU} -- --device cuda)" = "1 " ] || say "a part of a GPU: $(cat log)"
for rank in 0 1; do # one device a task, as Slurm gives them
    [ "$(contexts CUDA_VISIBLE_DEVICES=$rank -- --device cuda)" = "$rank " ] || say "one GPU a task: $(cat log)"
done

# How busy it was: NVML is asked for the GPU by its UUID. GPU g is at 10 (g + 1) percent.
"$STRETTO" train --model mlp --data synthetic:size=8,count=4096 --batch 8 --time-limit 2s --epochs 1000 --overwrite --out busy \
    --device cuda:1 --save-every never --eval-every never >out 2>err
grep -q '"mean": *0.2[,}]' busy/summary.json || say "gpu_busy: $(grep -A 4 gpu_busy busy/summary.json)"

# What is refused.
refused 2 "there are: cuda:0 Stub, cuda:1 Stub" -- --device cuda:2
refused 2 "there are: cuda:0 Stub, cuda:1 Stub" -- --device cuda:0,5 -n 2 --spawn threads
refused 2 "compute capability 7.5; 8.0 or newer" STUB_GPUS=75,90 -- --device cuda
refused 2 "CUDA_VISIBLE_DEVICES is '7'" CUDA_VISIBLE_DEVICES=7 -- --device cuda
refused 2 "this is CUDA 11.8" STUB_DRIVER=11080 -- --device cuda
refused 2 "does not load our kernels" STUB_LOADS=0 -- --device cuda
refused 2 "--comm peer takes several ranks a GPU; --device cuda:0,1" -- --device cuda -n 2 --comm nccl --spawn threads
refused 2 "NCCL 2, 2.18.0 or newer; this is 2.17.1" STUB_NCCL=21701 -- --device cuda:0,1 -n 2 --comm nccl --spawn threads
refused 2 "--spawn threads" -- --device cuda -n 2 --comm peer --spawn processes
refused 5 "largest at the peak" STUB_MEMORY=300 -- --device cuda --model resnet50 --batch 64 \
    --data synthetic:size=224,channels=3,count=128
# The stub has no room for what other processes hold, which the plan does not know of.
refused 5 "no memory for" STUB_MEMORY=512 -- --device cuda --model resnet18-cifar --batch 64 --data synthetic:size=32,channels=3,count=128

# Other GPUs: NCCL with a GPU each; data through the host where two GPUs do not reach one another, which is said.
[ "$(contexts -- --device cuda:0,1 -n 2 --comm nccl --spawn threads)" = "0 1 " ] || say "nccl: $(cat err)"
[ "$(contexts STUB_APART=1 -- --device cuda:0,1 -n 2 --comm peer --spawn threads)" = "0 1 " ] || say "apart: $(cat err)"
grep -q "have no peer access): data goes through memory of the host" err || say "apart, and not said: $(cat err)"
[ "$(contexts -- --device cuda:0,1 -n 2 --strategy 1f1b --stages 2 --micro-batches 2 --spawn threads)" = "0 1 " ] ||
    say "stages on two GPUs: $(cat err)"

# A kernel that fails is seen later: instruction, node and kernel are named once, and nothing is said thrice.
STUB_FAILS=60 "$STRETTO" train $options --out failed --device cuda >out 2>err
was=$?
[ $was = 7 ] || say "a failed kernel ends with $was: $(cat err)"
grep -q "illegal memory access" err || say "a failed kernel: $(cat err)"
[ "$(grep -c "it failed at #[0-9]* r0 [A-Z].* of step [0-9]*: [a-z_]*, which makes .*, by kernel " err)" = 1 ] ||
    say "a failed kernel is not named once: $(cat err)"

# --conv winograd and --threads do not act, and --dtype tf32 and f16 do.
for more in "--conv winograd --model resnet8" "--threads 1"; do
    # shellcheck disable=SC2086
    "$STRETTO" train $options --out run --device cuda $more >out 2>err || say "$more: $(cat err)"
    grep -q -- "${more%% *} .*does not act on device cuda" err || say "$more: no note: $(cat err)"
done
for dtype in tf32 bf16 f16; do
    # shellcheck disable=SC2086
    "$STRETTO" train $options --out run --device cuda --dtype $dtype >out 2>err || say "$dtype: $(cat err)"
done
"$STRETTO" doctor >out 2>err || [ $? = 1 ] || say "doctor: $(cat err)"
for row in "the NVIDIA driver  *CUDA" "cuDNN 9  *9.*cuda-stub" "GPUs  *cuda:0 Stub, cuda:1 Stub" "GPU pairs  *all of 1 pairs"; do
    grep -q "$row" out || say "doctor has no row '$row': $(cat out)"
done
exit $failed
