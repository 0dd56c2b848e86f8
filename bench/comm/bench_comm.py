"""All-reduce between local ranks: ours beside a plain C loop over a shared mapping, Open MPI and PyTorch's gloo.

The contestants run in turns, several rounds in one run, since the speed of a machine drifts; the table shows the
median and the best of all repeats of all rounds, and how many times as long as ours each took (by medians). A
contestant that is not installed is left out with a line that says so.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [(100_000_000, 10), (4_000_000, 50), (4096, 2000)]


def run(command, **extra):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, **extra)
    if done.returncode != 0:
        sys.exit(f"bench-comm: {' '.join(command)} ended with {done.returncode}")
    return done.stdout.split("\n")


def run_ours(kind):
    def turn(args, ranks):
        return {size: [float(line) for line in run([args.bench, kind, str(ranks), str(size), str(repeats)]) if line]
                for size, repeats in SIZES}
    return turn


def run_mpi(args, ranks):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), args.mpi]
    return {size: [float(line) for line in run(command + [str(size), str(repeats)], env=environment) if line]
            for size, repeats in SIZES}


def run_gloo(args, ranks):
    jobs = [f"{size}:{repeats}" for size, repeats in SIZES]
    out = {size: [] for size, _ in SIZES}
    for line in run([args.torch, os.path.join(HERE, "gloo.py"), str(ranks)] + jobs):
        if line:
            size, microseconds = line.split()
            out[int(size)].append(float(microseconds))
    return out


def contestants(args):
    found = {"stretto shm": run_ours("shm"), "stretto threads": run_ours("threads"), "plain C loop": run_ours("plain")}
    if args.mpi and os.path.exists(args.mpi) and shutil.which("mpirun"):
        found["Open MPI"] = run_mpi
    else:
        print("Open MPI is not there (libopenmpi-dev, openmpi-bin): left out")
    if args.torch and subprocess.run([args.torch, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        found["gloo"] = run_gloo
    else:
        print("PyTorch is not there: gloo left out")
    return found


def text(microseconds):
    return f"{microseconds / 1000:9.2f} ms" if microseconds >= 1000 else f"{microseconds:9.2f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--bench", default="build/bench-comm", help="our side")
    parser.add_argument("--mpi", help="the program built from mpi.c")
    parser.add_argument("--torch", help="a python that has torch")
    parser.add_argument("--rounds", type=int, default=9, help="alternations")
    parser.add_argument("--ranks", default="2,4", help="how many, separated by commas")
    args = parser.parse_args()
    found = contestants(args)
    for ranks in map(int, args.ranks.split(",")):
        times = {name: {size: [] for size, _ in SIZES} for name in found}
        for _ in range(args.rounds):
            for name, turn in found.items():
                for size, measured in turn(args, ranks).items():
                    times[name][size] += measured
        for size, _ in SIZES:
            print(f"\nall-reduce of {size} bytes, {ranks} ranks, {os.cpu_count()} cores"
                  f"{'':10}median{'':9}best   x ours")
            ours = statistics.median(times["stretto shm"][size])
            for name in found:
                middle = statistics.median(times[name][size])
                print(f"    {name:18}{text(middle):>32}{text(min(times[name][size])):>14}{middle / ours:8.2f}")


if __name__ == "__main__":
    main()
