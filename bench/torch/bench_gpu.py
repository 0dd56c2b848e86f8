#!/usr/bin/env python3
"""Stretto against PyTorch on one GPU: the same training step, in turns.

    bench_gpu.py [--cases resnet50-b64,vit-base-b64] [--rounds 3] [--limit 420] [--json FILE]

A step is forward, loss, backward and update of one synthetic batch. Both engines run as fresh processes, in turns, because
clocks and other users of a machine change. A run's figure is the mean time of its steps behind a warm-up: neither engine is
waited for between steps, and the device is waited for at the end. The table shows the median over the rounds. PyTorch's input
lies on the device; Stretto's is made by its loader and copied beside the computation, so it has more to do.

Of PyTorch there are eager, channels-last (of networks with convolutions), compile, compile with reduce-overhead, and
max-autotune, which is run once. Parameters are counted and compared, and so are the first losses. ratio = PyTorch's time /
Stretto's: above 1, Stretto is faster. Peak bytes are those of the device, without the context on both sides.

--limit: seconds after which no further run is begun. Cases are run round by round, so a short limit leaves out rounds of all of
them, not some. --json adds to what the file has, so several calls give one table; `--limit 0` prints it. Compile caches are
kept in --cache. --device cpu --small tries all of this without a GPU.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import cases
import stretto

HERE = os.path.dirname(os.path.abspath(__file__))
ONCE = ("max-autotune",)
LOSSES = 0.5  # how far the first losses may be apart: initial weights are other random numbers


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stretto", default="build/stretto")
    parser.add_argument("--cases", default="resnet50-b64,vit-base-b64,bert-base-b64", help=", ".join(cases.GPU_CASES))
    parser.add_argument("--variants", help="of PyTorch; otherwise all that suit the case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=15, help="steps of PyTorch before them")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="threads of Stretto's loader")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="batches of 2 and f32, to try this script")
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--cache", default="/tmp/bench-gpu-cache")
    parser.add_argument("--json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def sizes(arguments, case):
    row = cases.GPU_CASES[case]
    return (2, "f32") if arguments.small else (row.batch, row.dtype)


# --- PyTorch, in a process of its own ---
def prepare(variant, model, inputs):
    import torch

    if variant == "channels-last" or (variant in cases.PICTURES[2:] and inputs[0].dim() == 4):
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    if variant in ("eager", "channels-last"):
        return model, inputs
    return torch.compile(model, mode=None if variant == "compile" else variant), inputs


def to(device, values):
    return values.to(device) if hasattr(values, "to") else tuple(value.to(device) for value in values)


def torch_steps(arguments, case, variant):
    """In the child: ms of a step, parameters, first loss, peak bytes."""
    import torch

    import models

    row, (batch, dtype) = cases.GPU_CASES[case], sizes(arguments, case)
    device, on_gpu = arguments.device, arguments.device == "cuda"
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != "f32"
    torch.backends.cudnn.benchmark = True
    make_model, make_optimizer = models.GPU_CASES[row.network]
    inputs, labels, loss = models.batch_for(row.network, row, batch)
    model, inputs, labels = make_model(row.classes).train().to(device), to(device, inputs), to(device, labels)
    params = sum(p.numel() for p in model.parameters())
    run, inputs = prepare(variant, model, inputs)
    optimizer = make_optimizer(model, fused=on_gpu)
    narrow = {"bf16": torch.bfloat16, "f16": torch.float16}.get(dtype)
    scaler = torch.amp.GradScaler(device, enabled=dtype == "f16")

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, dtype=narrow or torch.bfloat16, enabled=narrow is not None):
            value = loss(run(*inputs), labels)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        return value

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    first = float(step())
    for _ in range(arguments.warmup):
        step()
    wait()
    begin = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    wait()
    ms = 1e3 * (time.perf_counter() - begin) / arguments.steps
    return {"ms": ms, "params": params, "loss": first, "bytes": torch.cuda.max_memory_reserved() if on_gpu else None,
            "version": torch.__version__, "device": torch.cuda.get_device_name() if on_gpu else "cpu"}


def run_torch(arguments, case, variant):
    command = [sys.executable, os.path.abspath(__file__), "--child", f"{case}:{variant}", "--device", arguments.device,
               "--steps", str(arguments.steps), "--warmup", str(arguments.warmup)]
    command += ["--small"] if arguments.small else []
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(arguments.cache, "inductor"),
                       TRITON_CACHE_DIR=os.path.join(arguments.cache, "triton"), TORCHINDUCTOR_FX_GRAPH_CACHE="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    print(f"# {case}: {variant} does not run here: {(done.stderr.strip().splitlines() or ['?'])[-1][:150]}", flush=True)
    return None


# --- Stretto ---
def run_stretto(arguments, case):
    row, (batch, dtype) = cases.GPU_CASES[case], sizes(arguments, case)
    options = ["--device", arguments.device, "--dtype", dtype, "--eval-every", "never", "--save-every", "never", *row.options]
    options += ["--workers", str(arguments.workers)]
    summary = stretto.run(arguments.stretto, row.network, batch, arguments.steps, options, data=row.data)
    return {"ms": 1e3 * batch / summary["samples_per_s"], "params": summary["params"], "loss": summary["loss_first"],
            "bytes": summary["peak_bytes"][0] if arguments.device == "cuda" else None, "version": summary["version"],
            "p50": summary["step_ms"]["p50"], "busy": summary.get("gpu_busy"), "data_ms": summary["time_ms"]["data"]}


# --- rounds ---
class Results:
    """{case: {engine: [run]}}, kept in a file where one is named."""

    def __init__(self, path):
        self.path, self.of = path, {}
        if path and os.path.exists(path):
            with open(path) as file:
                self.of = json.load(file)

    def add(self, case, engine, run):
        self.of.setdefault(case, {}).setdefault(engine, []).append(run)
        if self.path:
            with open(self.path + ".new", "w") as file:
                json.dump(self.of, file, indent=1)
            os.replace(self.path + ".new", self.path)

    def runs(self, case, engine):
        return self.of.get(case, {}).get(engine, [])


def engines_of(arguments, case):
    given = arguments.variants.split(",") if arguments.variants else cases.GPU_CASES[case].variants
    return ["stretto", *[variant for variant in cases.GPU_CASES[case].variants if variant in given]]


def plan_of(arguments):
    """What is run, in order: (case, engine), round by round; max-autotune at the end."""
    names = arguments.cases.split(",")
    every = [(case, engine) for _ in range(arguments.rounds) for case in names for engine in engines_of(arguments, case)
             if engine not in ONCE]
    return every + [(case, engine) for case in names for engine in engines_of(arguments, case) if engine in ONCE]


def measure(arguments, results):
    begin, broken = time.monotonic(), set()
    for case, engine in plan_of(arguments):
        if time.monotonic() - begin >= arguments.limit:
            print(f"# the limit of {arguments.limit:.0f} s: the rest is left out", flush=True)
            return
        if (case, engine) in broken or (engine in ONCE and results.runs(case, engine)):
            continue
        run = run_stretto(arguments, case) if engine == "stretto" else run_torch(arguments, case, engine)
        if run is None:
            broken.add((case, engine))
            continue
        results.add(case, engine, run)
        print(f"# {case} {engine}: {run['ms']:.2f} ms, at {time.monotonic() - begin:.0f} s", flush=True)


# --- the table ---
COLUMNS = "{:<20} {:<16}{:>6}{:>11}{:>9}{:>12}{:>8}{:>10}{:>10}"


def median_ms(runs):
    return statistics.median(run["ms"] for run in runs)


def agree(case, engines):
    """What is wrong with the comparison, or nothing."""
    own = engines["stretto"][0]
    for engine, runs in engines.items():
        if runs[0]["params"] != own["params"]:
            yield f"{case}: {own['params']} parameters in Stretto, {runs[0]['params']} in {engine}"
        if abs(runs[0]["loss"] - own["loss"]) > LOSSES:
            yield f"{case}: first loss {own['loss']:.3f} in Stretto, {runs[0]['loss']:.3f} in {engine}"


def print_table(arguments, results):
    wrong = []
    print(COLUMNS.format("case", "engine", "runs", "median ms", "best", "samples/s", "ratio", "MiB", "loss"))
    for case, engines in results.of.items():
        batch, _ = sizes(arguments, case)
        own = median_ms(engines["stretto"]) if "stretto" in engines else None
        for engine, runs in engines.items():
            ms = median_ms(runs)
            ratio = f"{ms / own:.2f}" if own and engine != "stretto" else ""
            size = f"{max(run['bytes'] for run in runs) / 2**20:.0f}" if runs[0]["bytes"] else "-"
            print(COLUMNS.format(case, engine, len(runs), f"{ms:.2f}", f"{min(run['ms'] for run in runs):.2f}",
                                 f"{1e3 * batch / ms:.0f}", ratio, size, f"{runs[0]['loss']:.3f}"))
        if own:
            wrong += agree(case, engines)
    for text in wrong:
        print(f"not comparable: {text}")
    return not wrong


def check(arguments):
    unknown = [case for case in arguments.cases.split(",") if case not in cases.GPU_CASES]
    if unknown:
        sys.exit(f"bench: unknown case {unknown[0]}; there are {', '.join(cases.GPU_CASES)}")


def main():
    arguments = parse_arguments()
    if arguments.child:
        print(json.dumps(torch_steps(arguments, *arguments.child.split(":"))))
        return
    check(arguments)
    results = Results(arguments.json)
    measure(arguments, results)
    sys.exit(not print_table(arguments, results))


if __name__ == "__main__":
    main()
