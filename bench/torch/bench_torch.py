#!/usr/bin/env python3
"""Stretto against PyTorch: the same training step, in turns.

A step is forward, loss, backward and optimizer update of one synthetic batch, f32 (or --dtype), with the same parameters,
dropout and masked positions; the number of parameters is compared. Both engines run as fresh processes, alternating,
because a shared machine drifts by more than they differ; each run gives the median of its steps after a warm-up, and the
table shows the median and the best of these over all rounds. Of PyTorch the variant with the best median counts: eager,
channels-last and torch.compile, with attention by SDPA and a fused optimizer; one that a round shows to be far slower
than the best is not run again. Its inputs lie in memory; Stretto's loader makes its own on a thread beside the training
(--pin puts either engine on the first cores, loader included).

ratio = PyTorch's time / Stretto's: above 1, Stretto is faster. memory: the most that was resident, above what was after
the libraries were loaded. floor: what a step needs at least, as bench-ops measures it in every round (the least counts), as a
part of Stretto's best time.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys

import cases
import stretto

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS = ("eager", "channels-last", "compile", "channels-last+compile")
OPTIMIZERS = {"fused": {"fused": True}, "foreach": {"fused": None, "foreach": True}, "plain": {"fused": None, "foreach": False}}
ASKED = {True: (1.5, 1.2), False: (1.3, 1.05)}  # with AVX-512, without: the geometric mean, the least
LIMITS = {"native": {}, "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}}
FLOOR = re.compile(r"floor ([0-9.]+) ms, and ([0-9.]+) for one pass of AdamW \(([0-9.]+) of SGD\)")
FLOOR_REPEATS = 3
FAR_SLOWER = 1.15  # times the best variant's median


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--cases", default=",".join(cases.CASES), help="networks, separated by commas")
    parser.add_argument("--variants", help="of PyTorch: " + ", ".join(VARIANTS) + "; otherwise those that suit the case")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="fused", help="PyTorch's form of the optimizer")
    parser.add_argument("--batch", type=int, help="samples of a step; otherwise the case's")
    parser.add_argument("--threads", default="1,2", help="of either engine, one after the other")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, help="measured steps of a run; otherwise the case's")
    parser.add_argument("--warmup", type=int, default=stretto.NOT_TIMED, help="steps of PyTorch before them")
    parser.add_argument("--pin", action="store_true", help="bind either engine to the first --threads cores")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="of activations and products; PyTorch's autocast")
    parser.add_argument("--isa", choices=LIMITS, default="native", help="instructions that either engine may use")
    parser.add_argument("--ops", metavar="FILE", help="bench-ops, which measures the floor; f32 only")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    parser.add_argument("--child", metavar="CASE:VARIANT:THREADS", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- PyTorch, in a process of its own ---


def resident(key):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(key + ":"))


def torch_steps(arguments, case, variant, threads):
    """In the child: times of the measured steps in ms, and what they took."""
    import torch

    import models

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    before = resident("VmRSS")
    row = cases.CASES[case]
    make_model, make_optimizer, _ = models.CASES[case]
    model = make_model(row.classes).train()
    inputs, labels, loss = models.batch_of(case, arguments.batch or row.batch)
    if "channels-last" in variant:
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    optimizer = make_optimizer(model, **OPTIMIZERS[arguments.optimizer])
    run = torch.compile(model) if "compile" in variant else model
    times = models.times_of(run, optimizer, inputs, labels, loss, arguments.warmup + (arguments.steps or row.steps),
                            arguments.dtype)
    return {"step_ms": times[arguments.warmup :], "params": sum(p.numel() for p in model.parameters()),
            "peak_bytes": resident("VmHWM") - before, "version": torch.__version__, "config": torch.__config__.show(),
            "isa": torch.backends.cpu.get_cpu_capability()}


def environment(arguments, threads):
    return dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_DYNAMIC="false", **LIMITS[arguments.isa])


def pinned(arguments, threads, command):
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return ["taskset", "-c", ",".join(map(str, cores))] + command if arguments.pin else command


def run_torch(arguments, case, variant, threads):
    """What the child says; None where this variant does not run here (torch.compile needs a compiler)."""
    command = [sys.executable, os.path.join(HERE, "bench_torch.py"), "--child", f"{case}:{variant}:{threads}"]
    for name in ("batch", "steps", "warmup", "optimizer", "dtype"):
        if getattr(arguments, name) is not None:
            command += ["--" + name, str(getattr(arguments, name))]
    done = subprocess.run(pinned(arguments, threads, command), env=environment(arguments, threads), capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if "compile" not in variant:
        sys.exit(f"bench: PyTorch failed on {case} {variant}:\n{done.stderr[-2000:]}")
    print(f"# {case}: {variant} does not run here: {done.stderr.strip().splitlines()[-1][:120]}", flush=True)
    return None


# --- both ---


def run_stretto(arguments, case, threads):
    row = cases.CASES[case]
    return stretto.run(arguments.stretto, case, arguments.batch or row.batch, arguments.steps or row.steps,
                       ["--threads", str(threads), "--dtype", arguments.dtype, *row.options], pinned(arguments, threads, []),
                       environment(arguments, threads), row.data)


def run_floor(arguments, case, threads):
    """ms that a step needs at least: its operations, and one pass of its optimizer."""
    row = cases.CASES[case]
    command = [arguments.ops, "cpu", str(threads), str(arguments.batch or row.batch), str(FLOOR_REPEATS), f"{case}:{row.size}"]
    done = subprocess.run(pinned(arguments, threads, command), env=environment(arguments, threads), capture_output=True, text=True)
    found = FLOOR.search(done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f"bench: {' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    operations, adamw, sgd = map(float, found.groups())
    return operations + (adamw if "adamw" in row.options else sgd)


def torch_onednn(config):
    for line in config.splitlines():
        if "MKL-DNN" in line or "oneDNN" in line:
            return line.strip(" -")
    return "oneDNN unknown"


class Result:
    """All rounds of one case on one number of threads."""

    def __init__(self, case, threads):
        self.case, self.threads, self.about = case, threads, None
        self.own, self.own_bytes, self.other, self.other_bytes, self.floors = [], 0, {}, {}, []

    def add_own(self, summary):
        self.isa = summary["isa"]
        self.own.append(summary["step_ms"]["p50"])
        self.own_bytes = max(self.own_bytes, summary["peak_bytes"][0])
        self.params = summary["params"]

    def add_other(self, variant, about):
        if about["params"] != self.params:
            sys.exit(f"bench: {self.case} has {self.params} parameters in Stretto, {about['params']} in PyTorch")
        self.about = about
        self.other.setdefault(variant, []).append(statistics.median(about["step_ms"]))
        self.other_bytes[variant] = min(self.other_bytes.get(variant, about["peak_bytes"]), about["peak_bytes"])

    def best_variant(self):
        return min(self.other, key=lambda variant: statistics.median(self.other[variant]))

    def ratio(self):
        return statistics.median(self.other[self.best_variant()]) / statistics.median(self.own)

    def floor_share(self):
        return min(self.floors) / min(self.own) if self.floors else None

    def is_far_slower(self, variant):
        return statistics.median(self.other[variant]) > FAR_SLOWER * statistics.median(self.other[self.best_variant()])

    def shown(self, variants):
        engines = {"stretto": self.own, **{variant: self.other[variant] for variant in variants},
                   **({"floor": self.floors} if self.floors else {})}
        return "  ".join(f"{name} {times[-1]:.0f} ms" for name, times in engines.items())


def measure(arguments, case, threads):
    result = Result(case, threads)
    variants = list(arguments.variants.split(",") if arguments.variants else cases.CASES[case].variants)
    for index in range(arguments.rounds):
        result.add_own(run_stretto(arguments, case, threads))
        if arguments.ops and arguments.dtype == "f32":
            result.floors.append(run_floor(arguments, case, threads))
        for variant in list(variants):
            about = run_torch(arguments, case, variant, threads)
            if about:
                result.add_other(variant, about)
            else:
                variants.remove(variant)
        print(f"# {case}, {threads} thread(s), round {index + 1}/{arguments.rounds}: {result.shown(variants)}", flush=True)
        variants = [variant for variant in variants if not result.is_far_slower(variant)]
    return result


# --- what is printed ---

COLUMNS = "{:<16}{:>8}  {:<28}{:>6}{:>10}{:>9}{:>11}{:>8}{:>12}{:>11}{:>8}"


def print_engine(result, name, times, samples, bytes_):
    own = name == "stretto"
    ratios = ("", "") if own else (f"{statistics.median(times) / statistics.median(result.own):.2f}",
                                   f"{min(times) / min(result.own):.2f}")
    share = f"{result.floor_share():.2f}" if own and result.floors else ""
    print(COLUMNS.format(result.case, result.threads, name if own else "torch " + name, len(times), f"{statistics.median(times):.1f}",
                         f"{min(times):.1f}", f"{1e3 * samples / min(times):.1f}", *ratios, f"{bytes_ / 2**20:.0f} MiB", share))


def print_table(arguments, results):
    print(COLUMNS.format("case", "threads", "engine", "rounds", "median ms", "best ms", "samples/s", "ratio", "best ratio", "memory", "floor"))
    for result in results:
        samples = arguments.batch or cases.CASES[result.case].batch
        print_engine(result, "stretto", result.own, samples, result.own_bytes)
        for variant, times in result.other.items():
            print_engine(result, variant, times, samples, result.other_bytes[variant])


def print_verdict(results):
    """What all cases together come to, and in brackets what is asked."""
    mean_asked, least_asked = ASKED["avx512" in results[0].isa]
    ratios = {f"{r.case} on {r.threads}": r.ratio() for r in results}
    least = min(ratios, key=ratios.get)
    mean = math.exp(statistics.mean(map(math.log, ratios.values())))
    print(f"geometric mean {mean:.2f} [{mean_asked}], least {ratios[least]:.2f} [{least_asked}]: {least} "
          "(medians, PyTorch's best variant)")
    above = [f"{r.case} on {r.threads}" for r in results if r.own_bytes > min(r.other_bytes.values())]
    print("peak memory: " + ("above PyTorch's least [not above] in " + ", ".join(above) if above else "nowhere above PyTorch's [not above]"))
    shares = {f"{r.case} on {r.threads}": r.floor_share() for r in results if r.floors}
    if shares:
        least = min(shares, key=shares.get)
        print(f"least share of the floor {shares[least]:.2f} [0.92]: {least}")


def check(arguments):
    for name, known in (("cases", cases.CASES), ("variants", VARIANTS)):
        given = getattr(arguments, name)
        unknown = [word for word in given.split(",") if word not in known] if given else []
        if unknown:
            sys.exit(f"bench: unknown {name[:-1]} {unknown[0]}; there are {', '.join(known)}")


def main():
    arguments = parse_arguments()
    if arguments.child:
        case, variant, threads = arguments.child.split(":")
        print(json.dumps(torch_steps(arguments, case, variant, int(threads))))
        return
    check(arguments)
    results = [measure(arguments, case, threads) for threads in map(int, arguments.threads.split(","))
               for case in arguments.cases.split(",")]
    about = results[0].about
    print(f"PyTorch {about['version']} ({about['isa']}), {torch_onednn(about['config'])}; Stretto's oneDNN: {results[0].isa}")
    print(f"{arguments.dtype}, {arguments.rounds} rounds, PyTorch's optimizer {arguments.optimizer}")
    print_table(arguments, results)
    print_verdict(results)
    if arguments.json:
        rows = [{"case": r.case, "threads": r.threads, "stretto_ms": r.own, "torch_ms": r.other, "stretto_bytes": r.own_bytes,
                 "torch_bytes": r.other_bytes, "floor_ms": r.floors} for r in results]
        with open(arguments.json, "w") as file:
            json.dump({"torch": about["version"], "torch_isa": about["isa"], "isa": results[0].isa, "results": rows}, file, indent=1)


if __name__ == "__main__":
    main()
