# What scripts/configure says of CUDA on pretended machines: a toolkit that lacks headers, one that is whole, none.
set -u
failed=0
say() { echo "$*"; failed=1; }
configure() { (cd "$ROOT" && CC=${CC:-gcc} CUDA=$1 scripts/configure) >made 2>said; }

configure none || say "CUDA=none fails: $(cat said)"
grep -q '^HAVE_CUDA := $' made || say "CUDA=none: $(grep HAVE_CUDA made)"
! grep -q -- -DHAVE_CUDA made || say "CUDA=none defines HAVE_CUDA"
[ ! -s said ] || say "CUDA=none is asked for, and complained of: $(cat said)"

# A folder that the user names and that is no toolkit stops the build in one line.
configure "$PWD/nothing" && say "a folder without nvcc is taken"
[ "$(wc -l <said)" = 1 ] && grep -q "CUDA=$PWD/nothing lacks: nvcc" said || say "no toolkit: $(cat said)"

# nvcc that does not compile, and headers that are too old.
mkdir -p old/bin old/include
printf '#!/bin/sh\nexit 1\n' >old/bin/nvcc
chmod +x old/bin/nvcc
echo '#define CUDA_VERSION 11000' >old/include/cuda.h
echo '#define CUDNN_MAJOR 8' >old/include/cudnn.h
echo '#define NCCL_MAJOR 1' >old/include/nccl.h
echo '#define CUBLAS_VER_MAJOR 11' >old/include/cublasLt.h
configure "$PWD/old" && say "an old toolkit is taken"
for part in "nvcc (it does not compile" "cuda.h of CUDA 12" cublasLt.h "cudnn.h of cuDNN 9" "nccl.h of NCCL 2"; do
    grep -qF "$part" said || say "no '$part' in: $(cat said)"
done
[ "$(wc -l <said)" = 1 ] || say "more than a line: $(cat said)"

# The same, new enough, with a compiler that does.
printf '#!/bin/sh\nexit 0\n' >old/bin/nvcc
echo '#define CUDA_VERSION 12080' >old/include/cuda.h
echo '#define CUDNN_MAJOR 9' >old/include/cudnn.h
echo '#define NCCL_MAJOR 2' >old/include/nccl.h
echo '#define CUBLAS_VER_MAJOR 12' >old/include/cublasLt.h
configure "$PWD/old" || say "a toolkit is refused: $(cat said)"
grep -q '^HAVE_CUDA := 1$' made && grep -q "^NVCC := $PWD/old/bin/nvcc$" made || say "not found: $(grep 'CUDA\|NVCC' made)"
grep -q -- "-isystem $PWD/old/include" made || say "its headers are not used: $(grep CFLAGS made)"
exit $failed
