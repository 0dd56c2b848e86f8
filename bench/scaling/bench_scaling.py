#!/usr/bin/env python3
"""How a step scales over the cores of one machine, beside PyTorch: threads of one rank, and ranks x threads.

Threads: Stretto and PyTorch (each variant of --variants that suits the model; the best counts) on 1, 2, 4, ... threads.
Ranks x threads, all cores in use: Stretto's ddp and PyTorch's DistributedDataParallel (gloo, the last variant that was
best), the same global batch. Beside a busy neighbour: Stretto on all cores while another process keeps --neighbour of them
busy; with nothing lost but its share a step takes cores / (cores - neighbour / 2) to 2 times as long, since each core that
two want is shared in halves.

Steps of a run follow from the time of the run before (--seconds); the first steps are not counted. Each figure is printed
as it is known, and nothing new is begun after --limit seconds. ms are medians over the steps of a run, the best of
--rounds runs; speed-up is against the fewest threads; ratio is PyTorch's time / Stretto's.
"""
import argparse
import os
import json
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "torch"))

import bench_torch  # noqa: E402
import cases  # noqa: E402
import stretto  # noqa: E402

BATCH = {"bert-base": 16}  # so that 16 ranks have a sample each
MOST_STEPS, LEAST_STEPS, WARMUP = 30, 4, 3


def parse_arguments():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=bench_torch.HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    parser.add_argument("--models", default="resnet18-cifar,bert-base", help="separated by commas")
    parser.add_argument("--threads", default=",".join(str(2**i) for i in range(cores.bit_length())), help="of one rank; none: skip")
    parser.add_argument("--ranks", default=",".join(f"{cores >> i}x{1 << i}" for i in range(cores.bit_length())),
                        help="ranks x threads; none: skip")
    parser.add_argument("--batch", type=int, help="samples of a step; otherwise 64, of bert 16")
    parser.add_argument("--variants", default="eager,channels-last", help="of PyTorch")
    parser.add_argument("--neighbour", type=int, default=max(1, cores // 8), help="cores that a busy process takes; 0: skip")
    parser.add_argument("--seconds", type=float, default=4, help="of measured steps in a run, about")
    parser.add_argument("--rounds", type=int, default=1, help="alternations")
    parser.add_argument("--limit", type=float, default=450, help="seconds after which nothing new begins")
    parser.add_argument("--no-torch", action="store_true", help="Stretto alone")
    parser.add_argument("--ddp", metavar="JSON", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- one figure each: the median step in ms, or None ---


class Bench:
    def __init__(self, arguments):
        self.arguments, self.end = arguments, time.monotonic() + arguments.limit
        self.work_ms = {}  # engine and model: what a step takes on one core, about

    def batch(self, model):
        return self.arguments.batch or BATCH.get(model, cases.CASES[model].batch)

    def late(self):
        return time.monotonic() > self.end

    def steps(self, engine, model, cores):
        guess = self.work_ms.get((engine, model))
        if not guess:
            return LEAST_STEPS
        return max(LEAST_STEPS, min(MOST_STEPS, int(1e3 * self.arguments.seconds * cores / guess)))

    def note(self, engine, model, cores, ms):
        self.work_ms[engine, model] = ms * cores
        return ms

    def stretto(self, model, ranks, threads):
        row = cases.CASES[model]
        options = ["--threads", str(threads), *row.options, *(["-n", str(ranks)] if ranks > 1 else [])]
        steps = self.steps("stretto", model, ranks * threads)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        environment.update({k: v for k, v in os.environ.items() if k in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")})
        summary = stretto.run(self.arguments.stretto, model, self.batch(model), steps, options,
                              environment=environment, data=row.data)
        return self.note("stretto", model, ranks * threads, summary["step_ms"]["p50"])

    def torch(self, model, variant, ranks, threads):
        job = {"model": model, "variant": variant, "ranks": ranks, "batch": self.batch(model) // ranks, "threads": threads,
               "steps": self.steps("torch", model, ranks * threads), "port": free_port()}
        children = [subprocess.Popen([self.arguments.python, os.path.abspath(__file__), "--ddp", json.dumps(dict(job, rank=rank))],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env=dict(os.environ, OMP_NUM_THREADS=str(threads))) for rank in range(ranks)]
        outputs = [child.communicate() for child in children]
        if any(child.returncode for child in children):
            sys.exit(f"bench: PyTorch failed on {model}:\n" + "\n".join(error[-600:] for _, error in outputs if error))
        return self.note("torch", model, ranks * threads, json.loads(outputs[0][0].splitlines()[-1])["ms"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torch_rank(job):
    """In a child: one rank; rank 0 prints the median of the measured steps."""
    import torch
    import torch.distributed as dist

    import models

    torch.manual_seed(0)
    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(1)
    make_model, make_optimizer, _ = models.CASES[job["model"]]
    model = make_model(cases.CASES[job["model"]].classes).train()
    inputs, labels, loss = models.batch_of(job["model"], job["batch"])
    if job["variant"] == "channels-last":
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    if job["ranks"] > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{job['port']}", rank=job["rank"], world_size=job["ranks"])
        model = torch.nn.parallel.DistributedDataParallel(model)
    times = models.times_of(model, make_optimizer(model, True), inputs, labels, loss, WARMUP + job["steps"])
    if job["rank"] == 0:
        print(json.dumps({"ms": statistics.median(times[WARMUP:])}))
    if job["ranks"] > 1:
        dist.destroy_process_group()


# --- rows ---


def best_of_both(bench, model, variants, ranks, threads):
    """Stretto's best, and PyTorch's with its variant: (ms, ms, variant)."""
    own, other = [], {}
    for _ in range(bench.arguments.rounds):
        own.append(bench.stretto(model, ranks, threads))
        for variant in variants:
            other.setdefault(variant, []).append(bench.torch(model, variant, ranks, threads))
    if not other:
        return min(own), None, None
    variant = min(other, key=lambda name: min(other[name]))
    return min(own), min(other[variant]), variant


ROW = "{:<16}{:<22}{:>12}{:>10}{:>12}{:>10}{:>8}  {}"


def print_row(model, cores, own, own_first, other, other_first, variant):
    cells = [f"{other:.1f}", f"{other_first / other:.2f}" if other_first else "", f"{other / own:.2f}"] if other else ["", "", ""]
    print(ROW.format(model, cores, f"{own:.1f}", f"{own_first / own:.2f}" if own_first else "", *cells, variant or ""), flush=True)


def measure_model(bench, model):
    arguments = bench.arguments
    suited = [v for v in arguments.variants.split(",") if v in cases.CASES[model].variants]
    variants = [] if arguments.no_torch else suited
    first_own = first_other = own = best = None
    for threads in [int(word) for word in arguments.threads.split(",") if word != "none"]:
        if bench.late():
            return
        own, other, best = best_of_both(bench, model, variants, 1, threads)
        first_own, first_other = first_own or own, first_other or other
        print_row(model, f"{threads} thread(s)", own, first_own, other, first_other, best)
    if arguments.neighbour and own and not bench.late():
        measure_neighbour(bench, model, own, threads)
    for word in [word for word in arguments.ranks.split(",") if word not in ("none", "")]:
        ranks, threads = map(int, word.split("x"))
        if ranks == 1 or bench.late():
            continue  # one rank: above
        own, other, variant = best_of_both(bench, model, [best or suited[0]] if variants else [], ranks, threads)
        print_row(model, f"{word} ranks x threads", own, first_own, other, first_other, variant)


def measure_neighbour(bench, model, alone, threads):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(bench.arguments.neighbour)]
    try:
        beside = bench.stretto(model, 1, threads)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    share = threads / max(1, threads - len(busy) / 2)
    print(f"{model:<16}{threads} thread(s) beside {len(busy)} busy core(s): {beside:.1f} ms, {beside / alone:.2f} of alone "
          f"[{share:.2f} to 2]", flush=True)


def main():
    arguments = parse_arguments()
    if arguments.ddp:
        return torch_rank(json.loads(arguments.ddp))
    bench = Bench(arguments)
    batches = ", ".join(f"{m} {bench.batch(m)}" for m in arguments.models.split(","))
    print(f"{len(os.sched_getaffinity(0))} cores; f32; samples of a step: {batches}")
    print(ROW.format("model", "cores", "stretto ms", "speed-up", "torch ms", "speed-up", "ratio", "variant"), flush=True)
    for model in arguments.models.split(","):
        measure_model(bench, model)
    if bench.late():
        print(f"# not all was measured within --limit {arguments.limit:.0f} s")


if __name__ == "__main__":
    main()
