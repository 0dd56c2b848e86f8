# Stretto: one Makefile, not recursive. `make help` lists the targets; `make run` and `make test` are the front door.
#
# Nothing here calls a compiler while the Makefile is read: on a bare machine there is none yet. scripts/deps finds
# (and for run and test installs) the packages, then scripts/configure writes $(B)/config.mk, which make includes.

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
SAN ?=
MPI ?=
CUDA ?=
V ?=

.DEFAULT_GOAL := all

# A newcomer's `make run` should use all cores; a -j on the command line wins over this one.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

comma := ,
B := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(MPI),-$(MPI))
F := build-fuzz
K := build-cuda
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# The version is said once, in the public header.
version_of = $(shell sed -n 's/^.define STRETTO_VERSION_$(1) \([0-9]*\)/\1/p' include/stretto.h)
MAJOR := $(call version_of,MAJOR)
VERSION := $(MAJOR).$(call version_of,MINOR).$(call version_of,PATCH)

# --- which targets need what ---------------------------------------------------------------------------------------
# Goals that build nothing need no packages; run and test install what is missing, the others only say it.
PLAIN_GOALS := help clean format lint docs-check layers test-debian test-mpich uninstall
INSTALLING_GOALS := run test test-long test-both fuzz test-torch golden bench-torch bench-scaling bench-ranks bench-pipes bench-comm bench-loader
GOALS := $(or $(MAKECMDGOALS),all)
DEPS_ACTION := $(if $(filter $(INSTALLING_GOALS),$(GOALS)),install,check)
DEPS := build optional $(if $(filter test test-long test-both unit-tests,$(GOALS)),test) $(if $(filter fuzz,$(GOALS)),clang fuzz) \
        $(if $(findstring clang,$(CC)),clang)
DEPS_OK := $(B)/deps-$(subst $() ,-,$(sort $(DEPS))).ok

$(DEPS_OK): scripts/deps
	@mkdir -p $(@D)
	@scripts/deps $(DEPS_ACTION) $(sort $(DEPS))
	@touch $@

ifneq ($(filter-out $(PLAIN_GOALS),$(GOALS)),)
include $(B)/config.mk
endif
$(B)/config.mk: scripts/configure $(DEPS_OK) $(B)/asked
	@CC='$(CC)' MPI='$(MPI)' CUDA='$(CUDA)' scripts/configure > $@.new
	@mv $@.new $@

# --- flags ---------------------------------------------------------------------------------------------------------
# -ffp-contract=off and no -march=native: the same bits on every machine of one instruction set. Nothing here reads errno or
# floating-point traps; saying so lets loops with branches become vector code and changes no value. clang warns where a
# loop marked simd stays scalar, which is no fault.
STD_FLAGS := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -Wall -Wextra -Werror -Wno-pass-failed -ffp-contract=off \
             -fno-math-errno -fno-trapping-math -fopenmp -fPIC -fvisibility=hidden
SAN_FLAGS := $(if $(SAN),-DSTRETTO_SANITIZE -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CFLAGS = $(STD_FLAGS) $(CONFIG_CFLAGS) $(CFLAGS) $(SAN_FLAGS)
ALL_LDFLAGS = -fopenmp $(LDFLAGS) $(SAN_FLAGS)
LIBS = $(CONFIG_LIBS) -lz -ljansson -lyaml -lisal -lzmq -lpthread -lm

# Objects depend on flags, libraries on sources: files that are rewritten only when what they say changes.
$(B)/flags: CONTENT = $(CC) $(shell $(CC) --version | head -n 1) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)
$(B)/sources $(F)/sources: CONTENT = $(SRC)
$(B)/asked: CONTENT = CUDA=$(CUDA)
$(K)/flags: CONTENT = $(NVCC) $(NVCC_FLAGS)
$(B)/flags $(B)/sources $(B)/asked $(F)/flags $(F)/sources $(K)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CONTENT)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

# --- library and program -------------------------------------------------------------------------------------------
# oneDNN 2 and 3 make descriptors differently: one of two files is compiled, behind one header.
OTHER_ONEDNN = src/backend/cpu/onednn$(if $(filter 2,$(ONEDNN_MAJOR)),3,2).c
NO_HDF5 = $(if $(HAVE_HDF5),,src/data/wiki.c src/data/hdf5.c src/data/hdf5_file.c)
NO_PICTURES = $(if $(HAVE_PICTURES),,$(wildcard src/data/folder*.c) $(wildcard src/data/picture*.c))
NO_LINES = $(if $(HAVE_MPI),,src/comm/mpi.c) $(if $(HAVE_UCX),,src/comm/ucx.c) \
           $(if $(HAVE_MPI)$(HAVE_UCX),,src/comm/hosts.c)
NO_MUNGE = $(if $(HAVE_MUNGE),,src/control/munge.c)
NO_CUDA = $(if $(HAVE_CUDA),,$(wildcard src/backend/cuda/*.c) src/backend/cuda/fatbin.S)
MAIN := $(wildcard src/cli/main.c)
SRC := $(filter-out $(MAIN) $(OTHER_ONEDNN) $(NO_HDF5) $(NO_PICTURES) $(NO_LINES) $(NO_MUNGE) $(NO_CUDA),$(sort $(shell find src -name '*.c' -o -name '*.S')))
OBJ = $(patsubst %,$(B)/%.o,$(basename $(SRC)))
MAIN_OBJ = $(MAIN:%.c=$(B)/%.o)
SHARED := $(B)/libstretto.so.$(VERSION)

all: $(if $(MAIN),$(B)/stretto) $(B)/libstretto.a $(B)/libstretto.so.$(MAJOR)

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(B)/%.o: %.S $(B)/flags
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Our GPU kernels: one fatbin of all .cu files, machine code for Ampere and Hopper and PTX for what comes after. It depends
# on no flag of the C compiler, so every build shares it. Without contraction a formula has the bits it has in C.
KERNELS := $(sort $(wildcard src/backend/cuda/*.cu))
NVCC_FLAGS := -std=c++17 -O3 -fmad=false -Isrc -Werror all-warnings --threads 2 -gencode arch=compute_80,code=sm_80 \
              -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90
$(K)/kernels.cu: $(KERNELS)
	@mkdir -p $(@D)
	@for f in $(KERNELS:src/%=%); do echo "#include \"$$f\""; done > $@
$(K)/kernels.fatbin: $(K)/kernels.cu $(KERNELS) src/backend/cuda/args.h src/backend/cuda/args_rows.h src/backend/cuda/device.h src/backend/cuda/random.h src/op/op.def src/tensor/tensor.h src/tensor/dtype.def $(K)/flags
	$(call say,NVCC,$(words $(KERNELS)) files of src/backend/cuda)
	$(Q)$(NVCC) $(NVCC_FLAGS) -fatbin $< -o $@
$(B)/src/backend/cuda/fatbin.o $(F)/src/backend/cuda/fatbin.o: $(K)/kernels.fatbin
$(B)/src/backend/cuda/fatbin.o $(F)/src/backend/cuda/fatbin.o: private STD_FLAGS += -DCUDA_FATBIN='"$(K)/kernels.fatbin"'

# x.S embeds the files of the folder x/ beside it; .incbin leaves no trace in the dependency files.
$(foreach s,$(filter %.S,$(SRC)),$(eval $(B)/$(s:.S=.o): $(wildcard $(s:.S=)/*)))

$(B)/libstretto.a: $(OBJ) $(B)/sources
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(OBJ)

# The map exports stretto_* alone; hidden visibility does not reach functions that are cloned per instruction set.
$(SHARED): $(OBJ) $(B)/sources scripts/stretto.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libstretto.so.$(MAJOR),--version-script=scripts/stretto.map $(ALL_LDFLAGS) $(OBJ) $(LIBS) -o $@

$(B)/libstretto.so.$(MAJOR): $(SHARED)
	$(Q)ln -sf $(<F) $@
	$(Q)ln -sf $(@F) $(B)/libstretto.so

$(B)/stretto: $(MAIN_OBJ) $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(MAIN_OBJ) $(B)/libstretto.a $(LIBS) -o $@

# --- tests ---------------------------------------------------------------------------------------------------------
UNIT_SRC := $(sort $(shell find tests/unit tests/faults -name '*.c' 2>/dev/null))
# A device for tests: tests/late/late.h.
LATE_OBJ = $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/late/*.c)))
# The tests have a runner of their own: tests/plain_runner.c says why.
UNIT_OBJ = $(UNIT_SRC:%.c=$(B)/%.o) $(B)/tests/plain_runner.o $(LATE_OBJ)

unit-tests: $(B)/unit-tests
$(B)/unit-tests: $(UNIT_OBJ) $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(UNIT_OBJ) $(B)/libstretto.a $(LIBS) -lcriterion -o $@

# A rank that trains nothing, for tests of the launcher and the rendezvous.
$(B)/rank-probe: $(B)/tests/ranks/probe.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Trainings with ranks as threads, held against one device.
$(B)/equal: $(B)/tests/equal/equal.o $(B)/tests/equal/replay.o $(B)/tests/equal/replay_local.o $(LATE_OBJ) $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Mutants of programs: the verifier against a judge that shares nothing with it.
MUTANTS_SRC := $(sort $(wildcard tests/mutants/*.c))
MUTANTS_OBJ = $(MUTANTS_SRC:%.c=$(B)/%.o)
$(B)/mutants: $(MUTANTS_OBJ) $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# A rank that only talks, for communicators with a launcher of their own.
$(B)/wire-probe: $(B)/tests/ranks/wire.o $(B)/tests/unit/comm/trial.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# The drawings that `make test-page` looks at.
$(B)/pages: $(B)/tests/page/pages.o $(B)/tests/unit/record/sample.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Programs of `make test-gpu`: operations and arrays of a device against the reference, models against the CPU.
GPU_SHARED = $(B)/tests/gpu/tap.o $(B)/libstretto.a
$(B)/gpu-ops: $(B)/tests/gpu/ops.o $(B)/tests/unit/op/cases.o $(B)/tests/unit/op/chain.o $(GPU_SHARED)
$(B)/gpu-arrays: $(B)/tests/gpu/arrays.o $(GPU_SHARED)
$(B)/gpu-models: $(B)/tests/gpu/models.o $(B)/tests/unit/golden/golden.o $(B)/tests/unit/golden/run_graph.o $(GPU_SHARED)
$(B)/gpu-steps: $(B)/tests/gpu/steps.o $(GPU_SHARED)
GPU_TESTS = $(B)/gpu-arrays $(B)/gpu-ops $(B)/gpu-models $(B)/gpu-steps
$(GPU_TESTS):
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# GPUs that are not there, for tests of what a run says of them: the libraries of tests/stub under the names of NVIDIA's.
STUB := $(B)/cuda-stub/libcuda.so.1
$(STUB): $(wildcard tests/stub/*.c) $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(if $(HAVE_CUDA),$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared $(CONFIG_CFLAGS) \
	    $(filter %.c,$^) -o $@,touch $@)
	$(Q)for name in cublasLt.so.12 cublasLt.so.13 cudnn.so.9 nccl.so.2 nvidia-ml.so.1; do ln -sf $(@F) $(@D)/lib$$name; done

# A fuzz target is a file tests/fuzz/fuzz_NAME.c with seeds in corpus/NAME. It is linked twice: with a driver of our own
# that any compiler builds ($(B)/fuzz/NAME), and, where clang has it, with libFuzzer and sanitizers (build-fuzz/NAME).
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_DRIVERS = $(FUZZ:%=$(B)/fuzz/%)
FUZZ_OBJ = $(B)/tests/fuzz/driver.o $(FUZZ:%=$(B)/tests/fuzz/fuzz_%.o)
FUZZ_SECONDS ?= 600

$(FUZZ_DRIVERS): $(B)/fuzz/%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/driver.o $(B)/libstretto.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

FUZZ_LIB_OBJ = $(OBJ:$(B)/%=$(F)/%)
FUZZ_FLAGS = $(STD_FLAGS) $(CONFIG_CFLAGS) -O1 -g -fno-sanitize-recover=all -DSTRETTO_SANITIZE -fsanitize=address,undefined
$(F)/flags: CONTENT = clang $(shell clang --version | head -n 1) $(FUZZ_FLAGS)
$(F)/%.o: %.c $(F)/flags
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(F)/%.o: %.S $(F)/flags
	@mkdir -p $(@D)
	$(Q)clang $(STD_FLAGS) -c $< -o $@

$(F)/libstretto.a: $(FUZZ_LIB_OBJ) $(F)/sources
	$(Q)rm -f $@ && ar rcs $@ $(FUZZ_LIB_OBJ)

$(FUZZ:%=$(F)/%): $(F)/%: $(F)/tests/fuzz/fuzz_%.o $(F)/libstretto.a
	$(call say,LD,$@)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer $^ $(LIBS) -o $@

# A long run: FUZZ_SECONDS for each of FUZZ (all of them).
fuzz: $(FUZZ:%=$(F)/%)
	@scripts/fuzz $(FUZZ_SECONDS) $(FUZZ)

# --- the two commands ----------------------------------------------------------------------------------------------
run: all
	$(B)/stretto train

# Suites are the rows of tests/suites; TESTS=unit,cli runs some of them, and builds what those need. `test` has the tests for
# every day, `test-long` those of tests/long, `test-both` all with one count.
SUITES := $(shell sed -n 's/^\([a-z][a-z]*\) .*/\1/p' tests/suites)
ALL_LONG := $(shell sed -n 's/^\([a-z][a-z]*\)  *\*$$/\1/p' tests/long)
wanted = $(or $(subst $(comma), ,$(TESTS)),$(1))
words_of = $(subst $(comma), ,$(shell sed -n 's/^$(1)  *\([^ ]*\) .*/\1/p' tests/suites))
file_of = $(if $(filter -,$(1)),,$(if $(filter all,$(1)),all,$(if $(filter fuzz,$(1)),$(FUZZ_DRIVERS),$(if $(filter libfuzzer,$(1)),$(LIBFUZZERS),$(B)/$(1)))))
needs = $(sort $(foreach suite,$(call wanted,$(1)),$(foreach word,$(call words_of,$(suite)),$(call file_of,$(word)))))
LIBFUZZERS = $(if $(SAN),,$(if $(HAVE_FUZZER),$(FUZZ:%=$(F)/%)))
run_tests = @PART=$(1) B=$(B) SAN=$(SAN) CC='$(CC)' HAVE_FUZZER=$(HAVE_FUZZER) FUZZ='$(FUZZ)' scripts/test-all $(TESTS)

test: $(call needs,$(filter-out $(ALL_LONG),$(SUITES)))
	$(call run_tests,short)
test-long: $(call needs,$(SUITES))
	$(call run_tests,long)
test-both: $(call needs,$(SUITES))
	$(call run_tests,all)

# The front door on bare Debian systems, for the committed tree.
test-debian:
	@B=$(B) scripts/test-debian $(DEBIAN)

# Real Slurm daemons, and hosts as network namespaces; both need root and skip without it.
test-slurm test-hosts: all $(B)/rank-probe
	@B=$(B) SAN=$(SAN) scripts/$@

# The drawings in a real browser; the pictures stay in $(B)/page.
test-page: all $(B)/pages
	@B=$(B) scripts/test-page

# What runs on a GPU, against the reference kernels and the CPU; SEED=n draws other numbers, TYPES='f32,bf16' some types.
test-gpu: all $(B)/equal $(GPU_TESTS)
	@B=$(B) SEED='$(if $(filter command line,$(origin SEED)),$(SEED))' TYPES='$(TYPES)' scripts/test-gpu

# Every figure of a GPU, in parts of under eight minutes, and one table; PARTS='tests types speed' some of them.
gpu-figures: all $(B)/equal $(B)/torch-step $(GPU_TESTS)
	@B=$(B) scripts/gpu-figures $(PARTS)

# MUTANTS programs damaged in one place or two: none that would train otherwise may pass the verifier.
MUTANTS ?= 500000
SEED ?= 1
test-mutants: $(B)/mutants
	@$(B)/mutants $(MUTANTS) $(SEED)

# The MPI that Debian does not choose by default: sums, training, deaths with MPICH's mpiexec.
test-mpich:
	@scripts/test-mpich

# Every training of several ranks against one device, to the last bit; WAYS="matrix dp mpi" MODELS="mlp" RANKS="2 3" some
# cells, CELLS=cover a few that cover all, as for SAN=address,undefined and SAN=thread.
test-equal: all $(B)/equal
	@B=$(B) SAN=$(SAN) WAYS='$(WAYS)' MODELS='$(MODELS)' RANKS='$(RANKS)' CELLS='$(CELLS)' DEVICE='$(DEVICE)' scripts/test-equal

# Against PyTorch, in a Python environment that outlives `make clean`; VENV= names another, PYTHON=python3 takes the
# packages that are there already.
VENV ?= .venv-torch
TORCH_PYTHON = $(or $(PYTHON),$(VENV)/bin/python)
torch_there = $(if $(PYTHON),,scripts/venv $(VENV))

# What a model computes from given weights and samples.
$(B)/torch-step: $(B)/tests/torch/step.o $(B)/tests/unit/golden/run_graph.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

test-torch: all $(B)/torch-step
	@$(torch_there)
	@B=$(B) scripts/test-torch $(TORCH_PYTHON)

# The vectors of the golden tests, made again by PyTorch; CASES="mlp lenet" for some of them.
$(B)/golden-dump: $(B)/tests/golden/dump.o $(B)/tests/unit/golden/golden.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@
golden: $(B)/golden-dump
	@$(torch_there)
	@$(TORCH_PYTHON) tests/golden/make_golden.py $< tests/golden $(CASES)

# BENCH='--threads 2 --variants eager,channels-last' and so on: bench/torch/bench_torch.py --help
bench-torch: all $(B)/bench-ops
	@$(torch_there)
	@$(TORCH_PYTHON) bench/torch/bench_torch.py --stretto $(B)/stretto --ops $(B)/bench-ops $(BENCH)

# Threads 1 to all cores, ranks x threads, a busy neighbour; PYTHON= one that has PyTorch; BENCH='--models resnet18-cifar --threads 1,16'
bench-scaling: all
	@$(torch_there)
	@python3 bench/scaling/bench_scaling.py --stretto $(B)/stretto --python $(TORCH_PYTHON) $(BENCH)

# Ranks: one, two, and PyTorch DDP; BENCH='--ranks 2 --rounds 9' and so on: bench/torch/bench_ranks.py --help
bench-ranks: all
	@$(torch_there)
	@$(TORCH_PYTHON) bench/torch/bench_ranks.py --stretto $(B)/stretto $(BENCH)

# Pipelines and ZeRO against one device and against PyTorch's; PYTHON=python3 takes a PyTorch that is there already.
bench-pipes: all
	@$(torch_there)
	@python3 bench/torch/bench_pipes.py --stretto $(B)/stretto --python $(TORCH_PYTHON) $(BENCH)

# Two hosts, played by network namespaces, over networks of several speeds; HOSTS='10gbit 1gbit', ROUNDS=, STEPS=, MODEL=, BATCH=.
bench-hosts: all
	@sh bench/hosts/bench_hosts.sh $(B)/stretto $(HOSTS)

# Time of each operation in a training step; OPS='cpu 2 64' names device, threads, batch, repeats, models.
bench-ops: $(B)/bench-ops
	@$(B)/bench-ops $(OPS)

$(B)/bench-ops: $(B)/bench/ops.o $(B)/bench/ops_floor.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Training steps on a GPU, against each variant of PyTorch, in turns; BENCH='--cases resnet50-b64 --limit 420 --json FILE'.
bench-gpu: all
	@$(torch_there)
	@$(TORCH_PYTHON) bench/torch/bench_gpu.py --stretto $(B)/stretto $(BENCH)

# Forward and backward on a GPU, operation by operation; PASS='cuda resnet50 64 224 bf16' names device, model, batch, size, type.
PASS ?= cuda resnet50 64 224 bf16
bench-gpu-pass: $(B)/bench-gpu-pass
	@$(B)/bench-gpu-pass $(PASS)

$(B)/bench-gpu-pass: $(B)/bench/gpu_pass.o $(B)/tests/unit/golden/run_graph.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# What the executor itself takes for a step of empty instructions; EXEC='1000 2000' names instructions and steps.
bench-exec: $(B)/bench-exec
	@$(B)/bench-exec $(EXEC)

$(B)/bench-exec: $(B)/bench/exec.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# All-reduce between local ranks, in turns with a plain C loop, Open MPI and gloo; COMM='--rounds 9 --ranks 2'.
bench-comm: $(B)/bench-comm
	@$(torch_there)
	@if command -v mpicc >/dev/null; then mpicc -O2 bench/comm/mpi.c -o $(B)/bench-comm-mpi; fi
	@python3 bench/comm/bench_comm.py --bench $(B)/bench-comm --mpi $(B)/bench-comm-mpi --torch $(TORCH_PYTHON) $(COMM)

$(B)/bench-comm: $(B)/bench/comm/ranks.o $(B)/tests/unit/comm/trial.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Decoding and augmentation of pictures on one thread, in turns with torchvision and Pillow; PYTHON=python3 takes those that are
# there already, LOADER='--data DIR --rounds 9'.
bench-loader: $(B)/bench-loader
	@$(torch_there)
	@python3 bench/loader/bench_loader.py --bench $(B)/bench-loader --python $(TORCH_PYTHON) $(LOADER)

$(B)/bench-loader: $(B)/bench/loader/loader.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Forecasts against measured steps, 24 combinations; SIM='--rounds 9 --models vit-micro', SIM='--ranks 4,8' on 8 cores or more.
bench-sim: all
	@python3 bench/sim/bench_sim.py --stretto $(B)/stretto $(SIM)

# Instructions a second of the simulator; SPEED='1024 1 256 1 5' names stages, replicas, micro-batches, steps, rounds.
bench-simulator: $(B)/bench-simulator
	@$(B)/bench-simulator $(SPEED)

$(B)/bench-simulator: $(B)/bench/sim/speed.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Groups that form while ranks run: random traces, and how large groups become; GROUPS=1000 names the traces.
bench-groups: $(B)/bench-groups
	@$(B)/bench-groups $(GROUPS)

$(B)/bench-groups: $(B)/bench/groups.o $(B)/tests/unit/sync/traces.o $(B)/libstretto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Predicted against measured peak memory of every rank, 36 combinations; MEMORY='--only zero'.
bench-memory: all
	@python3 bench/memory/bench_memory.py --stretto $(B)/stretto $(MEMORY)

# First rows of plan, and others, measured; PLAN='--models vit-tiny --rounds 3' passes options on.
bench-plan: all
	@python3 bench/sim/bench_plan.py --stretto $(B)/stretto $(PLAN)

# Bubbles of all schedules with waits in place of passes, beside the simulator's; DELAY='--ranks 4 --steps 10'.
bench-delay: all
	@python3 bench/sim/bench_delay.py --stretto $(B)/stretto $(DELAY)

# --- installing ----------------------------------------------------------------------------------------------------
D := $(DESTDIR)$(PREFIX)
MAN := $(D)/share/man/man1/stretto.1
BASH_COMPLETION := $(D)/share/bash-completion/completions/stretto
ZSH_COMPLETION := $(D)/share/zsh/site-functions/_stretto
DOC := $(D)/share/doc/stretto

# The program writes its own manual page and completion, from the tables it runs by.
$(B)/stretto.1: COMMAND = help --man
$(B)/stretto.bash: COMMAND = completion bash
$(B)/stretto.zsh: COMMAND = completion zsh
$(B)/stretto.1 $(B)/stretto.bash $(B)/stretto.zsh: $(B)/stretto
	$(Q)$(B)/stretto $(COMMAND) > $@

install: all $(B)/stretto.1 $(B)/stretto.bash $(B)/stretto.zsh
	install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include
	$(if $(MAIN),install -m 755 $(B)/stretto $(D)/bin/)
	install -m 644 $(B)/libstretto.a $(D)/lib/
	install -m 755 $(SHARED) $(D)/lib/
	ln -sf libstretto.so.$(VERSION) $(D)/lib/libstretto.so.$(MAJOR)
	ln -sf libstretto.so.$(MAJOR) $(D)/lib/libstretto.so
	install -m 644 include/stretto.h include/stretto_own.h $(D)/include/
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(strip $(LIBS)) -fopenmp|' scripts/stretto.pc.in \
	    > $(D)/lib/pkgconfig/stretto.pc
	install -D -m 644 $(B)/stretto.1 $(MAN)
	install -D -m 644 $(B)/stretto.bash $(BASH_COMPLETION)
	install -D -m 644 $(B)/stretto.zsh $(ZSH_COMPLETION)
	install -d $(DOC)/docs $(DOC)/examples
	install -m 644 README.md CONTRIBUTING.md SECURITY.md LICENSE $(DOC)/
	install -m 644 docs/*.md $(DOC)/docs/
	install -m 644 examples/*.c $(DOC)/examples/
	install -d $(DOC)/docs/pictures
	install -m 644 docs/pictures/*.svg $(DOC)/docs/pictures/

uninstall:
	rm -f $(D)/bin/stretto $(D)/lib/libstretto.* $(D)/include/stretto.h $(D)/include/stretto_own.h $(D)/lib/pkgconfig/stretto.pc
	rm -f $(MAN) $(BASH_COMPLETION) $(ZSH_COMPLETION)
	rm -rf $(DOC)

# --- looking after the tree ----------------------------------------------------------------------------------------
C_FILES = $(shell find src include tests bench examples \( -name '*.c' -o -name '*.h' \) 2>/dev/null)

layers lint docs-check help:
	@scripts/$@

# The pictures of the documents, drawn by the program; a test compares them.
pictures: $(B)/stretto
	@B=$(B) scripts/pictures

format:
	clang-format -i $(C_FILES)

clean:
	rm -rf build build-*

.PHONY: all run test test-long test-both fuzz test-debian test-mutants test-slurm test-hosts test-mpich test-page test-equal test-torch golden bench-torch bench-scaling bench-ranks bench-pipes bench-hosts bench-ops bench-exec bench-comm bench-delay bench-loader bench-memory bench-plan bench-sim bench-simulator bench-groups unit-tests install uninstall pictures layers lint docs-check format clean help test-gpu gpu-figures bench-gpu bench-gpu-pass FORCE
.DELETE_ON_ERROR:
.PRECIOUS: $(B)/%.o $(F)/%.o
ifneq ($(filter-out $(PLAIN_GOALS),$(GOALS)),)
-include $(shell find $(B) $(F) -name '*.d' 2>/dev/null)
endif
