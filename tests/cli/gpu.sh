# --device cuda and the types of GPUs where there is none: a sentence that names what is missing and what to do, and exit 2.
. "$ROOT/tests/cli/lib.sh"
three_lines() { [ "$(wc -l <err)" -le 3 ] || say "more than three lines: $(cat err)"; }
for command in "train --out run" explain simulate check; do
    # shellcheck disable=SC2086
    ends 2 $command --model mlp --device cuda
    three_lines
    grep -q 'NVIDIA driver' err && grep -q -- '--device cpu' err || grep -q 'this build has' err ||
        say "$command: it does not say what is missing: $(cat err)"
done
[ ! -e run ] || say "a run that was refused leaves a folder"
# Planes move data between GPUs alone.
for comm in peer nccl; do
    answers 2 "--comm $comm moves data between GPUs" explain --model mlp -n 2 --comm $comm
    three_lines
done
# A job script asks for as many GPUs as ranks.
"$STRETTO" launch --emit sbatch --nodes 2 -n 4 --model mlp --device cuda >out 2>err
grep -q '^#SBATCH --gres=gpu:4$' out || say "no GPUs in the job script: $(cat out err)"
# A list has the same answer; what is no list is refused before anything is opened.
ends 2 explain --model mlp --device cuda:0,1
three_lines
for wrong in cuda: cuda:x cuda:0, cuda:,1 cuda:0,,1 cuda:99999 cuda0 gpu "cuda:0 1" cuda:-1; do
    answers 2 "is not allowed" explain --model mlp --device "$wrong"
done
answers 2 "there is one cpu device" explain --model mlp --device cpu:1
ends 0 explain --model mlp --device cpu:0
for device in cpu ref; do
    for dtype in tf32 f16; do
        answers 2 "--dtype $dtype: device $device has f32 and bf16" explain --model mlp --device $device --dtype $dtype
        grep -q -- '--device cuda' err || say "$dtype: no device that has it: $(cat err)"
        three_lines
    done
done
# doctor goes on without a GPU, and has a row for each library.
"$STRETTO" doctor >out || [ $? = 1 ] || say "doctor ends with $?"
if grep -q '^  ok *cuda ' out; then
    for row in "the NVIDIA driver" cuBLASLt "cuDNN 9" "NCCL 2" NVML GPUs; do
        grep -q "^  [a-z]* *$row  *[^ ]" out || say "no row $row: $(cat out)"
    done
fi
exit $failed
