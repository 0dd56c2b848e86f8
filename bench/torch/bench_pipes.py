#!/usr/bin/env python3
"""Pipelines: Stretto's schedules against its own single device and against torch.distributed.pipelining over gloo, in turns.

Two ranks of one thread each, one global batch. Every run is fresh, the engines alternate, a run gives the median of its steps
after a warm-up, the table shows medians over the rounds. T1(M) is `--strategy single --micro-batches M` of Stretto. efficiency =
T1(M) / (ranks * (1 - bubble) * time), where bubble is the schedule's own at equal costs of its passes (simulate --costs f=1,i=1,w=1):
1.00 would be the time that the schedule promises. against torch = PyTorch's time / Stretto's. PyTorch's stages are cut in the
middle of the network; Stretto cuts by --balance.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

import stretto

HERE = os.path.dirname(os.path.abspath(__file__))
# Stretto's strategy, micro-batches, PyTorch's class and stages of a rank
CASES = [
    ("gpipe", 4, "ScheduleGPipe", 1),
    ("1f1b", 4, "Schedule1F1B", 1),
    ("1f1b", 8, "Schedule1F1B", 1),
    ("interleaved", 4, "ScheduleInterleaved1F1B", 2),
    ("zbv", 4, "ScheduleInterleavedZeroBubble", 2),
]


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--models", default="resnet18-cifar,vit-tiny", help="networks")
    parser.add_argument("--batch", type=int, default=64, help="images of a step")
    parser.add_argument("--ranks", type=int, default=2, help="of a pipeline")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=2, help="steps of PyTorch before them")
    parser.add_argument("--no-torch", action="store_true", help="Stretto alone")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    return parser.parse_args()


def layers_of(model, name):
    """The network as a list of modules, one behind the other."""
    from torch import nn

    if name == "vit-tiny":
        import models

        return models.vit_layers(model)
    blocks = [block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer]
    stem = nn.Sequential(model.conv1, model.bn1, model.relu)
    return [stem, *blocks, nn.Sequential(model.avgpool, nn.Flatten(), model.fc)]


def torch_rank(arguments):
    """In a child: one rank; rank 0 prints the times of the measured steps in ms."""
    import time

    import torch
    import torch.distributed as dist
    import torch.distributed.pipelining as pipelining
    from torch import nn

    sys.path.insert(0, HERE)
    import models

    _, micros, kind, chunks = CASES[arguments.case]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank, ranks = arguments.rank, arguments.ranks
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{arguments.port}", rank=rank, world_size=ranks)
    make_model, make_optimizer, _ = models.CASES[arguments.model]
    layers = layers_of(make_model(stretto.CLASSES).train(), arguments.model)
    count = ranks * chunks
    bounds = [len(layers) * i // count for i in range(count + 1)]
    own = [s for s in range(count) if s % ranks == rank]
    parts = [nn.Sequential(*layers[bounds[s]:bounds[s + 1]]) for s in own]
    stages = [pipelining.PipelineStage(part, s, count, torch.device("cpu")) for part, s in zip(parts, own)]
    loss = lambda output, target: nn.functional.cross_entropy(output, target)
    schedule = getattr(pipelining, kind)(stages if chunks > 1 else stages[0], micros, loss_fn=loss)
    optimizers = [make_optimizer(part, None) for part in parts]
    images = torch.randn(arguments.batch, 3, 32, 32)
    labels = torch.randint(stretto.CLASSES, (arguments.batch,))
    times = []
    for _ in range(arguments.warmup + arguments.steps):
        dist.barrier()
        begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad()
        given = (images,) if rank == 0 else ()
        schedule.step(*given, **({"target": labels} if own[-1] == count - 1 else {}))
        for optimizer in optimizers:
            optimizer.step()
        dist.barrier()
        times.append((time.perf_counter() - begin) * 1e3)
    if rank == 0:
        print(json.dumps({"step_ms": times[arguments.warmup:], "version": torch.__version__}))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_torch(arguments, model, case):
    """Median step in ms, or None where PyTorch's schedule refuses or fails."""
    port, children = free_port(), []
    for rank in range(arguments.ranks):
        command = [sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--port", str(port), "--case", str(case)]
        command += ["--model", model]
        for name in ("batch", "ranks", "steps", "warmup"):
            command += ["--" + name, str(getattr(arguments, name))]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=dict(os.environ, OMP_NUM_THREADS="1")))
    outputs = [child.communicate() for child in children]
    if any(child.returncode for child in children):
        print(f"  PyTorch {CASES[case][2]}: {outputs[0][1].decode()[-200:]}", file=sys.stderr)
        return None
    return statistics.median(json.loads(outputs[0][0].splitlines()[-1])["step_ms"])


def run_stretto(arguments, model, options):
    quiet = ["--eval-every", "never", "--save-every", "never", "--threads", "1"]
    work = {"vit-tiny": ["--optimizer", "adamw", "--patch", "4", "--clip", "0"],
            "resnet18-cifar": ["--optimizer", "sgd", "--lr", "0.01"]}[model]
    summary = stretto.run(arguments.stretto, model, arguments.batch, arguments.steps, [*options, *quiet, *work])
    return summary["step_ms"]["p50"]


def promised_bubble(arguments, strategy, micros):
    """Of the schedule at equal costs."""
    command = [arguments.stretto, "simulate", "--strategy", strategy, "--stages", str(arguments.ranks), "--batch", "64",
               "--model", "resnet18-cifar", "--data", "synthetic:channels=3,size=32,classes=10,count=64",
               "--micro-batches", str(micros), "--costs", "f=1,i=1,w=1,c=0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout)["bubble"] if done.returncode == 0 else float("nan")


def bench(arguments, model):
    times = {}
    def note(key, value):
        if value is not None:
            times.setdefault(key, []).append(value)
    for _ in range(arguments.rounds):
        for micros in sorted({case[1] for case in CASES}):
            note(("single", micros), run_stretto(arguments, model, ["--micro-batches", str(micros)]))
        for index, (strategy, micros, _, _) in enumerate(CASES):
            options = ["--strategy", strategy, "--stages", str(arguments.ranks), "--micro-batches", str(micros)]
            note((strategy, micros), run_stretto(arguments, model, options))
            if not arguments.no_torch:
                note(("torch", index), run_torch(arguments, model, index))
    print(f"{model}, batch {arguments.batch}, {arguments.ranks} ranks of 1 thread, {arguments.rounds} rounds, ms a step")
    print(f"{'':16}{'M':>3}{'Stretto':>10}{'T1(M)':>10}{'bubble':>8}{'efficiency':>12}{'PyTorch':>10}{'against torch':>15}")
    for index, (strategy, micros, _, _) in enumerate(CASES):
        own, single = statistics.median(times[strategy, micros]), statistics.median(times["single", micros])
        bubble = promised_bubble(arguments, strategy, micros)
        share = single / (arguments.ranks * own) / (1 - bubble)
        line = f"{strategy:16}{micros:>3}{own:>10.1f}{single:>10.1f}{bubble:>8.3f}{share:>12.2f}"
        if ("torch", index) in times:
            other = statistics.median(times["torch", index])
            line += f"{other:>10.1f}{other / own:>14.2f}x"
        print(line, flush=True)


def main():
    arguments = parse_arguments()
    if arguments.rank is not None:
        torch_rank(arguments)
        return
    for model in arguments.models.split(","):
        bench(arguments, model)


if __name__ == "__main__":
    main()
