#!/usr/bin/env python3
"""Data parallel ranks: Stretto with one rank, Stretto with several, PyTorch DDP over gloo with as many, in turns.

Each rank has one thread and the same number of images (--batch of them), so perfect scaling keeps the time of a step. Every run
is fresh, the engines alternate, a run gives the median of its steps after a warm-up, the table shows median and best over the
rounds. speed-up = ranks * time of one rank / time of several; exposed = share of a step spent in communication, waiting included;
against DDP = PyTorch's time / Stretto's.
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


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--case", default="resnet18-cifar", help="network")
    parser.add_argument("--batch", type=int, default=32, help="images of a rank")
    parser.add_argument("--ranks", type=int, default=2, help="of Stretto and of PyTorch")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=8, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=stretto.NOT_TIMED, help="steps of PyTorch before them")
    parser.add_argument("--no-torch", action="store_true", help="scaling alone")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def torch_rank(arguments):
    """In a child: one rank of DDP; rank 0 prints the times of the measured steps in ms."""
    import torch
    import torch.distributed as dist

    sys.path.insert(0, HERE)
    import models

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{arguments.port}", rank=arguments.rank,
                            world_size=arguments.ranks)
    make_model, make_optimizer, _ = models.CASES[arguments.case]
    model = torch.nn.parallel.DistributedDataParallel(make_model(stretto.CLASSES).train())
    optimizer = make_optimizer(model, None)
    images = torch.randn(arguments.batch, 3, 32, 32)
    labels = torch.randint(stretto.CLASSES, (arguments.batch,))
    times = models.step_times(model, optimizer, images, labels, arguments.warmup + arguments.steps)
    if arguments.rank == 0:
        print(json.dumps({"step_ms": times[arguments.warmup :], "version": torch.__version__}))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_torch(arguments):
    port, children = free_port(), []
    for rank in range(arguments.ranks):
        command = [sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--port", str(port)]
        for name in ("case", "batch", "ranks", "steps", "warmup"):
            command += ["--" + name, str(getattr(arguments, name))]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1")))
    outputs = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        sys.exit("bench: PyTorch DDP failed")
    return json.loads(outputs[0].splitlines()[-1])


def run_stretto(arguments, ranks):
    options = ["--optimizer", "sgd"] if arguments.no_torch else __import__("models").CASES[arguments.case][2]
    options = ["-n", str(ranks), "--threads", "1"] + options
    return stretto.run(arguments.stretto, arguments.case, arguments.batch * ranks, arguments.steps, options)


def main():
    arguments = parse_arguments()
    if arguments.rank is not None:
        return torch_rank(arguments)
    one, many, torch, exposed, version = [], [], [], [], None
    for index in range(arguments.rounds):
        one.append(run_stretto(arguments, 1)["step_ms"]["p50"])
        summary = run_stretto(arguments, arguments.ranks)
        many.append(summary["step_ms"]["p50"])
        times = summary["time_ms"]
        waited = times["comm_exposed"] + times["idle"]  # a rank that waits for the other does not compute either
        exposed.append(waited / sum(times[k] for k in ("data", "forward", "backward", "comm_exposed", "idle", "optimizer")))
        if not arguments.no_torch:
            result = run_torch(arguments)
            torch.append(statistics.median(result["step_ms"]))
            version = result["version"]
        print(f"# round {index + 1}/{arguments.rounds}: 1 rank {one[-1]:.1f} ms, {arguments.ranks} ranks {many[-1]:.1f} ms"
              + (f", DDP {torch[-1]:.1f} ms" if torch else ""), flush=True)
    ranks = arguments.ranks
    print(f"{arguments.case}, {arguments.batch} images a rank, 1 thread a rank, {arguments.rounds} rounds" + (f", PyTorch {version}" if version else ""))
    for name, of in (("median", statistics.median), ("best", min)):
        line = f"{name:<8}1 rank {of(one):8.1f} ms   {ranks} ranks {of(many):8.1f} ms   speed-up {ranks * of(one) / of(many):.2f}   exposed {100 * of(exposed):.1f}%"
        print(line + (f"   DDP {of(torch):8.1f} ms   against DDP {of(torch) / of(many):.2f}" if torch else ""))


if __name__ == "__main__":
    main()
