#!/usr/bin/env python3
"""Stretto against PyTorch: the same training step, in turns.

A step is forward, loss, backward and optimizer update of one batch of synthetic 32x32 images, f32. Both engines run
as fresh processes, alternating, because a shared machine drifts by more than they differ; each run gives the median
of its steps after a warm-up, and the table shows the median and the best of these over all rounds. PyTorch's images
lie in memory; Stretto's loader makes its own on a thread beside the training (--pin puts either engine on the first
--threads cores, loader included). ratio = PyTorch's time / Stretto's: above 1, Stretto is faster.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import stretto

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS = ("eager", "channels-last", "compile", "channels-last+compile")


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--cases", default="resnet18-cifar,vit-tiny", help="networks, separated by commas")
    parser.add_argument("--variants", default="eager", help="of PyTorch: " + ", ".join(VARIANTS))
    parser.add_argument("--batch", type=int, default=64, help="images of a step")
    parser.add_argument("--threads", type=int, default=1, help="of either engine")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=8, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=stretto.NOT_TIMED, help="steps of PyTorch before them")
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused optimizers")
    parser.add_argument("--pin", action="store_true", help="bind either engine to the first --threads cores")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    parser.add_argument("--child", metavar="CASE:VARIANT", help=argparse.SUPPRESS)
    return parser.parse_args()


def torch_steps(arguments, case, variant):
    """In the child: times of the measured steps in ms."""
    import torch

    import models

    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    torch.set_num_interop_threads(1)
    make_model, make_optimizer, _ = models.CASES[case]
    model = make_model(stretto.CLASSES).train()
    images = torch.randn(arguments.batch, 3, 32, 32)
    labels = torch.randint(stretto.CLASSES, (arguments.batch,))
    if "channels-last" in variant:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = make_optimizer(model, arguments.fused or None)
    run = torch.compile(model) if "compile" in variant else model
    times = models.step_times(run, optimizer, images, labels, arguments.warmup + arguments.steps)
    return {"step_ms": times[arguments.warmup :], "version": torch.__version__, "config": torch.__config__.show()}


def environment(arguments):
    return dict(os.environ, OMP_NUM_THREADS=str(arguments.threads), OMP_DYNAMIC="false")


def pinned(arguments, command):
    cores = sorted(os.sched_getaffinity(0))[: arguments.threads]
    return ["taskset", "-c", ",".join(map(str, cores))] + command if arguments.pin else command


def run_torch(arguments, case, variant):
    command = [sys.executable, os.path.join(HERE, "bench_torch.py"), "--child", f"{case}:{variant}"]
    for name in ("batch", "threads", "steps", "warmup"):
        command += ["--" + name, str(getattr(arguments, name))]
    command += ["--fused"] if arguments.fused else []
    done = subprocess.run(pinned(arguments, command), env=environment(arguments), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: PyTorch failed on {case} {variant}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_stretto(arguments, case):
    import models

    options = ["--threads", str(arguments.threads)] + models.CASES[case][2]
    return stretto.run(arguments.stretto, case, arguments.batch, arguments.steps, options, pinned(arguments, []),
                       environment(arguments))


def torch_onednn(config):
    for line in config.splitlines():
        if "MKL-DNN" in line or "oneDNN" in line:
            return line.strip(" -")
    return "oneDNN unknown"


def measure(arguments, case, variants):
    """All rounds of one case: {engine: [median step ms of each round]}, and what PyTorch says about itself."""
    rounds = {"stretto": []}
    rounds.update({variant: [] for variant in variants})
    about = None
    for index in range(arguments.rounds):
        rounds["stretto"].append(run_stretto(arguments, case)["step_ms"]["p50"])
        for variant in variants:
            about = run_torch(arguments, case, variant)
            rounds[variant].append(statistics.median(about["step_ms"]))
        shown = "  ".join(f"{name} {times[-1]:.0f} ms" for name, times in rounds.items())
        print(f"# {case} round {index + 1}/{arguments.rounds}: {shown}", flush=True)
    return rounds, about


def print_table(arguments, results):
    print(f"{'case':<16}{'engine':<24}{'median ms':>10}{'best ms':>9}{'samples/s':>11}{'ratio':>8}{'best ratio':>12}")
    for case, rounds in results.items():
        own = rounds["stretto"]
        for name, times in rounds.items():
            median, best = statistics.median(times), min(times)
            line = f"{case:<16}{name if name == 'stretto' else 'torch ' + name:<24}{median:>10.1f}{best:>9.1f}"
            line += f"{1e3 * arguments.batch / best:>11.1f}"
            if name != "stretto":
                line += f"{median / statistics.median(own):>8.2f}{best / min(own):>12.2f}"
            print(line)


def main():
    arguments = parse_arguments()
    if arguments.child:
        sys.path.insert(0, HERE)
        print(json.dumps(torch_steps(arguments, *arguments.child.split(":"))))
        return
    variants = arguments.variants.split(",")
    unknown = [variant for variant in variants if variant not in VARIANTS]
    if unknown:
        sys.exit(f"bench: unknown variant {unknown[0]}; there are {', '.join(VARIANTS)}")
    results, about = {}, None
    for case in arguments.cases.split(","):
        results[case], about = measure(arguments, case, variants)
    print(f"PyTorch {about['version']}, {torch_onednn(about['config'])}")
    print(f"batch {arguments.batch}, {arguments.threads} thread(s), f32, {arguments.rounds} rounds of {arguments.steps} steps")
    print_table(arguments, results)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": about["version"], "batch": arguments.batch, "threads": arguments.threads,
                       "step_ms": results}, file, indent=1)


if __name__ == "__main__":
    main()
