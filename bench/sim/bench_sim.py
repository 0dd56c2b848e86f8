#!/usr/bin/env python3
"""Forecasts of the simulator against measured steps, for combinations of model, schedule, ranks and micro-batches with a core for each
rank.

In every round, before each combination, its model's profile is taken anew (ranks that all compute, --save-profile); then the
combination is forecast from it and run: the less time between the two, the less the machine has changed. Medians over the rounds give the error of a combination. Beside the mean error: Kendall's tau of predicted and
measured order over pairs whose measured medians are more than --apart percent apart; the share of single runs inside the interval
that was printed in their round; the widest interval. What is asked for stands in brackets. The forecasts of the runs that were profiled
are compared as well: their error is the simulator's alone, that of the others has the drift of the machine between two runs in it. How
large that drift is, the profiled runs say: they repeat one run over and over, so the share of them that lies within the interval's
half-width of the one before is about the best share that any forecast can have inside its interval.
Schedules that cut a model into more parts than it has are left out.
"""
import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile

import stretto

# Samples of a micro-batch: large enough that operations and not the executor take the time.
SIZES = {"resnet8": 16, "resnet20": 8, "vit-micro": 32}
ERROR, TAU, HALF_WIDTH, INSIDE = 5, 0.9, 10, 90  # asked for


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def words(text):
    return text.split(",")


def numbers(text):
    return [int(number) for number in words(text)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--models", type=words, default=list(SIZES), help=f"of {', '.join(SIZES)}")
    parser.add_argument("--schedules", type=words, default=["gpipe", "1f1b", "zb-h1", "zbv"])
    parser.add_argument("--micro-batches", type=numbers, default=[4, 8])
    parser.add_argument("--ranks", type=numbers, default=[2], help="stages of a pipeline; at most as many as cores")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=15, help="measured steps of a run")
    parser.add_argument("--apart", type=float, default=3, help="percent between two medians that have an order")
    parser.add_argument("--quick", action="store_true", help="one round of five steps: does everything run?")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.steps = 1, 5
    return arguments


def common(model, ranks):
    return ["--model", model, "--data", "synthetic", "--threads", "1", "-n", str(ranks)]


def options_of(combination):
    model, ranks, schedule, micros = combination
    return [*common(model, ranks), "--strategy", schedule, "--stages", str(ranks), "--micro-batches", str(micros),
            "--batch", str(micros * SIZES[model])]


def compared(seen, told):
    return {"seen": seen["step_ms"]["p50"], "told": told["step"] * 1e-6, "low": told["step_low"] * 1e-6, "high": told["step_high"] * 1e-6}


def profile_of(folder, model, ranks):
    return os.path.join(folder, f"{model}-{ranks}")


def take_profile(engine, arguments, folder, model, ranks):
    """The forecast of the run that is profiled, and that run."""
    path = profile_of(folder, model, ranks)
    if os.path.exists(path):
        os.remove(path)
    options = [*common(model, ranks), "--strategy", "ddp", "--micro-batches", "2", "--batch", str(2 * ranks * SIZES[model])]
    seen = engine.train([*options, "--save-profile", path], arguments.steps)
    return compared(seen, engine.simulate([*options, "--profile", path]))


def one_round(engine, arguments, folder, results, own):
    for combination, runs in results.items():
        own.append((combination[:2], take_profile(engine, arguments, folder, *combination[:2])))
        options = options_of(combination)
        told = engine.simulate([*options, "--profile", profile_of(folder, *combination[:2])])
        runs.append(compared(engine.train(options, arguments.steps), told))


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


def error_of(seen, told):
    return 100 * (told - seen) / seen


def repeated(own, width):
    """Percent of profiled runs within `width` percent of the run before them, of the same model and ranks."""
    seen = {}
    for place, run in own:
        seen.setdefault(place, []).append(run["seen"])
    pairs = [pair for times in seen.values() for pair in itertools.pairwise(times)]
    return 100 * sum(abs(error_of(*pair)) <= width for pair in pairs) / len(pairs) if pairs else float("nan")


def report(results, own, arguments):
    medians = []
    print(f"{'model':12}{'ranks':>5}  {'schedule':12}{'M':>3}{'measured':>11}{'predicted':>11}{'error':>9}   (medians of {arguments.rounds} rounds, ms)")
    for (model, ranks, schedule, micros), runs in results.items():
        seen, told = (statistics.median(run[key] for run in runs) for key in ("seen", "told"))
        medians.append((seen, told))
        print(f"{model:12}{ranks:>5}  {schedule:12}{micros:>3}{seen:>11.2f}{told:>11.2f}{error_of(seen, told):>+8.1f}%")
    errors = [error_of(*pair) for pair in medians]
    single = [run for runs in results.values() for run in runs]
    inside = 100 * sum(run["low"] <= run["seen"] <= run["high"] for run in single) / len(single)
    widest = max(50 * (run["high"] - run["low"]) / run["told"] for run in single)
    tau, pairs = kendall(medians, arguments.apart)
    mean = statistics.mean(map(abs, errors))
    print(f"{len(medians)} combinations: mean error {mean:.1f}% [at most {ERROR}%], the largest {max(map(abs, errors)):.1f}%, with its sign {statistics.mean(errors):+.1f}%")
    print(f"Kendall's tau {tau:.3f} [at least {TAU}] over {pairs} pairs more than {arguments.apart:g}% apart")
    print(f"{inside:.0f}% of {len(single)} runs inside their interval [{INSIDE}%]; the widest is +-{widest:.1f}% [at most {HALF_WIDTH}%]")
    of_own = [error_of(run["seen"], run["told"]) for _, run in own]
    width = statistics.median(50 * (run["high"] - run["low"]) / run["told"] for run in single)
    repeats = repeated(own, width)
    print(f"the machine itself: {repeats:.0f}% of the profiled runs are within +-{width:.1f}%, the median interval, of the same run before them")
    print(f"runs that were profiled: mean error {statistics.mean(map(abs, of_own)):.1f}%, with its sign {statistics.mean(of_own):+.1f}%")
    return {"mean_error": mean, "tau": tau, "pairs": pairs, "inside": inside, "widest": widest, "repeats": repeats}


def choose(engine, arguments):
    """What can run: as many parts as a schedule wants."""
    chosen = []
    for combination in itertools.product(arguments.models, arguments.ranks, arguments.schedules, arguments.micro_batches):
        if engine.can(options_of(combination)):
            chosen.append(combination)
        else:
            print(f"# {' '.join(map(str, combination))}: left out, it cannot be cut so")
    return chosen


def main():
    arguments = parse_arguments()
    cores = len(os.sched_getaffinity(0))
    if max(arguments.ranks) > cores:
        sys.exit(f"--ranks {max(arguments.ranks)}: there are {cores} cores; forecasts are for ranks that have one each")
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    engine = stretto.Engine(arguments.stretto)
    results, own = {combination: [] for combination in choose(engine, arguments)}, []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(arguments.rounds):
            one_round(engine, arguments, folder, results, own)
            print(f"# round {index + 1} of {arguments.rounds} done", file=sys.stderr, flush=True)
    reached = report(results, own, arguments)
    if arguments.json:
        runs = [dict(zip(("model", "ranks", "schedule", "micro_batches"), key), runs=value) for key, value in results.items()]
        with open(arguments.json, "w") as file:
            json.dump({"cores": cores, "reached": reached, "combinations": runs, "profiled": [run for _, run in own]}, file, indent=1)


if __name__ == "__main__":
    main()
