#!/usr/bin/env python3
"""What `stretto plan` says against measured steps: the ten first rows, and others drawn by seed from all that can be planned.

All are forecast by `simulate` with the profile of one run (--rules: by the operations' rules instead) and measured in turns, --rounds
times. Reported: how far the first row of `plan` is from the best that was measured; Kendall's tau of forecast and measured order, over
pairs whose medians differ by more than the noise, which is the median spread of one plan over the rounds; the share of measured runs
inside the interval of their forecast. What is asked for stands in brackets.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile

import bench_sim
import stretto

FIRST, TAU = 5, 0.8  # asked for: percent, tau
RECOMPUTE = ["never", "always:block", "always", "except-last"]
PIPELINES = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "zbv", "dualpipe-v", "v-half", "v-min"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=bench_sim.HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--models", type=bench_sim.words, default=["vit-tiny", "resnet18-cifar"])
    parser.add_argument("--ranks", type=bench_sim.numbers, default=[2])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--drawn", type=int, default=30, help="plans beside the ten first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=5, help="measured steps of a run")
    parser.add_argument("--rules", action="store_true", help="no profile")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    return parser.parse_args()


def base_of(model, batch):
    return ["--model", model, "--data", "synthetic", "--threads", "1", "--batch", str(batch)]


def options_of(row):
    """Those of a row of plan, or of one that was drawn."""
    whole = row["stages"] == 1
    names = ["ddp", "zero1", "zero2", "zero3"]
    name = ("single" if row["ranks"] == 1 else names[row["zero_stage"]]) if whole else row["schedule"]
    options = ["--strategy", name, "-n", str(row["ranks"]), "--micro-batches", str(row["micro_batches"]), "--recompute", row["recompute"]]
    if not whole:
        options += ["--stages", str(row["stages"]), "--balance", row["balance"]]
        if row["zero_stage"]:
            options += ["--zero-stage", str(row["zero_stage"])]
        if row["schedule"] in ("interleaved", "looped-bfs"):
            options += ["--virtual", str(row["virtual"])]
    return options


def draw(seeded, ranks):
    stages = seeded.choice([stages for stages in range(1, ranks + 1) if ranks % stages == 0])
    return {"schedule": seeded.choice(PIPELINES) if stages > 1 else "single", "ranks": ranks, "stages": stages,
            "micro_batches": seeded.choice([1, 2, 4, 8, 16]), "zero_stage": seeded.choice([0, 1, 3]) if stages < ranks else 0,
            "recompute": seeded.choice(RECOMPUTE), "balance": seeded.choice(["flops", "params", "memory"]), "virtual": 1}


def plans_of(engine, base, ranks, arguments, costs):
    """Options of the ten first rows, then of those drawn that can be planned, as tuples without doubles."""
    answer = json.loads(engine._call("plan", [*base, "-n", str(ranks), *costs, "--json"]))
    plans = [tuple(options_of(row)) for row in answer["rows"]]
    seeded = random.Random(arguments.seed)
    for _ in range(50 * arguments.drawn):
        one = tuple(options_of(draw(seeded, ranks)))
        if len(plans) < len(answer["rows"]) + arguments.drawn and one not in plans and engine.can([*base, *one]):
            plans.append(one)
    return plans


def measure(engine, base, plans, arguments, costs):
    runs = {plan: [] for plan in plans}
    for index in range(arguments.rounds):
        for plan in plans:
            told = engine.simulate([*base, *plan, *costs])
            runs[plan].append(bench_sim.compared(engine.train([*base, *plan], arguments.steps), told))
        print(f"# round {index + 1} of {arguments.rounds} done", file=sys.stderr, flush=True)
    return runs


def report(model, ranks, runs):
    medians = [tuple(statistics.median(run[key] for run in of) for key in ("seen", "told")) for of in runs.values()]
    spread = statistics.median(100 * (max(run["seen"] for run in of) / min(run["seen"] for run in of) - 1) for of in runs.values())
    for plan, (seen, told) in zip(runs, medians):
        print(f"{model:15}{ranks:>3}{seen:>10.1f}{told:>10.1f}{bench_sim.error_of(seen, told):>+8.1f}%  {' '.join(plan)}")
    best = min(seen for seen, _ in medians)
    far = 100 * (medians[0][0] / best - 1)
    tau, pairs = bench_sim.kendall(medians, spread)
    single = [run for of in runs.values() for run in of]
    inside = 100 * sum(run["low"] <= run["seen"] <= run["high"] for run in single) / len(single)
    print(f"{model}, {ranks} ranks: the first row of plan is {far:.1f}% above the best measured [{FIRST}%]; Kendall's tau {tau:.3f} [{TAU}] over "
          f"{pairs} pairs more than the noise ({spread:.1f}%) apart; {inside:.0f}% of {len(single)} runs inside their interval", flush=True)
    return {"model": model, "ranks": ranks, "first": far, "tau": tau, "pairs": pairs, "noise": spread, "inside": inside}


def main():
    arguments = parse_arguments()
    cores = len(os.sched_getaffinity(0))
    if max(arguments.ranks) > cores:
        sys.exit(f"--ranks {max(arguments.ranks)}: there are {cores} cores; forecasts are for ranks that have one each")
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f} at the start; medians of {arguments.rounds} rounds, ms: measured, forecast", flush=True)
    engine, reached = stretto.Engine(arguments.stretto), []
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            for ranks in arguments.ranks:
                base, profile = base_of(model, arguments.batch), os.path.join(folder, f"{model}-{ranks}")
                costs = [] if arguments.rules else ["--profile", profile]
                if costs:
                    engine.train([*base, "-n", str(ranks), "--strategy", "ddp", "--save-profile", profile], arguments.steps)
                plans = plans_of(engine, base, ranks, arguments, costs)
                reached.append(report(model, ranks, measure(engine, base, plans, arguments, costs)))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(reached, file, indent=1)


if __name__ == "__main__":
    main()
