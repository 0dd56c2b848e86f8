#!/usr/bin/env python3
"""Forecasts of the simulator against measured steps, for combinations of model, schedule and micro-batches with a core for each rank.

In every round each model's profile is taken anew (ranks that all compute, --save-profile), then each combination is forecast from
it and run. Medians over the rounds give the error of a combination. Beside the mean error: Kendall's tau of predicted and
measured order over pairs whose measured medians are more than --apart percent apart; the share of single runs inside the interval
that was printed in their round; the widest interval.
"""
import argparse
import itertools
import os
import statistics
import tempfile

import stretto

# Samples of a micro-batch: large enough that operations and not the executor take the time.
SIZES = {"resnet8": 16, "resnet20": 8, "vit-micro": 32}


def words(text):
    return text.split(",")


def numbers(text):
    return [int(number) for number in words(text)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--models", type=words, default=list(SIZES), help=f"of {', '.join(SIZES)}")
    parser.add_argument("--schedules", type=words, default=["gpipe", "1f1b", "zb-h1", "zbv"])
    parser.add_argument("--micro-batches", type=numbers, default=[4, 8])
    parser.add_argument("--ranks", type=int, default=2, help="stages of a pipeline; at most as many as cores")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=15, help="measured steps of a run")
    parser.add_argument("--apart", type=float, default=3, help="percent between two medians that have an order")
    return parser.parse_args()


def common(model, arguments):
    return ["--model", model, "--data", "synthetic", "--threads", "1", "-n", str(arguments.ranks)]


def take_profile(engine, model, arguments, path):
    batch = 2 * arguments.ranks * SIZES[model]
    engine.train([*common(model, arguments), "--strategy", "ddp", "--micro-batches", "2", "--batch", str(batch), "--save-profile", path],
                 arguments.steps)


def one_round(engine, arguments, folder, combinations, results):
    for model in arguments.models:
        take_profile(engine, model, arguments, os.path.join(folder, model))
    for combination in combinations:
        model, schedule, micros = combination
        options = [*common(model, arguments), "--strategy", schedule, "--stages", str(arguments.ranks), "--micro-batches", str(micros),
                   "--batch", str(micros * SIZES[model])]
        told = engine.simulate([*options, "--profile", os.path.join(folder, model)])
        seen = engine.train(options, arguments.steps)
        results[combination].append({"seen": seen["step_ms"]["p50"], "told": told["step"] * 1e-6, "low": told["step_low"] * 1e-6,
                                     "high": told["step_high"] * 1e-6})


def kendall(medians, apart):
    """(tau, pairs) over pairs (measured, predicted) of which the measured are more than `apart` percent apart."""
    score = count = 0
    for (seen, told), (other_seen, other_told) in itertools.combinations(medians, 2):
        if max(seen, other_seen) <= min(seen, other_seen) * (1 + apart / 100):
            continue
        count += 1
        sign = (seen - other_seen) * (told - other_told)
        score += (sign > 0) - (sign < 0)
    return (score / count if count else float("nan")), count


def report(results, arguments):
    medians, errors = [], []
    print(f"{'model':12} {'schedule':12}  M   measured  predicted    error   (medians of {arguments.rounds} rounds, ms)")
    for (model, schedule, micros), runs in results.items():
        seen, told = (statistics.median(run[key] for run in runs) for key in ("seen", "told"))
        medians.append((seen, told))
        errors.append(100 * abs(told - seen) / seen)
        print(f"{model:12} {schedule:12} {micros:2} {seen:10.2f} {told:10.2f} {100 * (told - seen) / seen:+7.1f}%")
    single = [run for runs in results.values() for run in runs]
    inside = sum(run["low"] <= run["seen"] <= run["high"] for run in single)
    widest = max(50 * (run["high"] - run["low"]) / run["told"] for run in single)
    tau, pairs = kendall(medians, arguments.apart)
    print(f"{len(medians)} combinations: mean error {statistics.mean(errors):.1f}%, the largest {max(errors):.1f}%")
    print(f"Kendall's tau {tau:.3f} over {pairs} pairs more than {arguments.apart:g}% apart")
    print(f"{inside} of {len(single)} runs inside their interval ({100 * inside / len(single):.0f}%); the widest is +-{widest:.1f}%")


def main():
    arguments = parse_arguments()
    cores = len(os.sched_getaffinity(0))
    if arguments.ranks > cores:
        raise SystemExit(f"--ranks {arguments.ranks}: there are {cores} cores; forecasts are for ranks that have one each")
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f} at the start")
    engine = stretto.Engine(arguments.stretto)
    combinations = list(itertools.product(arguments.models, arguments.schedules, arguments.micro_batches))
    results = {combination: [] for combination in combinations}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            one_round(engine, arguments, folder, combinations, results)
    report(results, arguments)


if __name__ == "__main__":
    main()
