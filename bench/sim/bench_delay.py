#!/usr/bin/env python3
"""Bubbles of all schedules: measured, simulated, and by the closed form where its condition holds.

Passes are waits (--delay), so that there may be more ranks than cores. All have f = i = w. A figure is a share of all ranks' time,
in percent; a run is good where both of its bubbles are within --points of the simulator. Of a pipeline that is never flushed there is
no span of a step, and the run is so long that to drain it at the end does not show. Nothing of its step is idle, so all that ranks do beside
passes shows in its bubble: updates and copies of versions (0.13 ms a mini-batch of resnet56 on 4 ranks), messages, and waking up. The
simulator is told of passes alone. So its passes take --flushless times as long.
"""
import argparse

import stretto

SCHEDULES = ["mp", "pmp", "gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zbv", "dualpipe-v", "v-half",
             "v-min", "pipedream", "pipedream-2bw"]
FLUSHLESS = ("pipedream", "pipedream-2bw")


def closed_form(schedule, s, m):
    """Bubble at f = i = w without latency, or None."""
    total = {
        "mp": lambda: 3 * m * s,
        "pmp": lambda: m + s - 1 + 2 * m * s,
        "gpipe": lambda: 3 * (m + s - 1),
        "1f1b": lambda: 3 * (m + s - 1),
        "eager-1f1b": lambda: 3 * (m + s - 1),
        "interleaved": lambda: 3 * (m + (s - 1) / 2) if m % s == 0 else None,
        "looped-bfs": lambda: 3 * (m + (s - 1) / 2) if m >= s else None,
        "zb-h1": lambda: 3 * m + s - 1 if m >= s else None,
        "zb-h2": lambda: 3 * m + s - 1 if m >= 2 * s - 1 else None,
        "zbv": lambda: 3 * m + (s - 1) / 2 if m >= 2 * s - 1 else None,
        "dualpipe-v": lambda: 3 * m + (s - 1) / 2 if m >= 2 * s else None,
        "pipedream": lambda: 3 * m,
        "pipedream-2bw": lambda: 3 * m,
    }.get(schedule, lambda: None)()
    return None if total is None else 100 * (1 - 3 * m / total)


def numbers(text):
    return [int(number) for number in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--model", default="resnet56", help="needs as many layers as there are stages")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--ranks", type=numbers, default=[4, 8])
    parser.add_argument("--micro-batches", type=numbers, default=[8, 32])
    parser.add_argument("--delay-ms", type=float, default=5, help="of f, i and w each")
    parser.add_argument("--flushless", type=float, default=3, help="... times so long where a pipeline is never flushed")
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a run")
    parser.add_argument("--points", type=float, default=2, help="allowed difference")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    engine = stretto.Engine(arguments.stretto)
    good, worst, count = 0, 0.0, 0
    print(f"{'schedule':13} ranks  M   bubble: measured simulated closed   span: measured simulated   difference")
    for ranks in arguments.ranks:
        for micros in arguments.micro_batches:
            for schedule in arguments.schedules.split(","):
                if schedule == "pipedream" and micros != arguments.micro_batches[0]:
                    continue  # it has one micro-batch a step
                flushless = schedule in FLUSHLESS
                ms = arguments.delay_ms * (arguments.flushless if flushless else 1)
                every = 1 if schedule == "pipedream" else micros
                options = ["--model", arguments.model, "--data", "synthetic", "--threads", "1", "--strategy", schedule, "--stages",
                           str(ranks), "--micro-batches", str(every), "--batch", str(every)]
                told = engine.simulate([*options, "--costs", f"f={ms},i={ms},w={ms}"])
                seen = engine.train([*options, "-n", str(ranks), "--delay", f"f={ms}ms,i={ms}ms,w={ms}ms"], max(arguments.steps, 80 * ranks // every if flushless else 0))
                form = closed_form(schedule, ranks, every)
                apart = max(abs(100 * seen[key] - 100 * told[key]) for key in (("bubble",) if flushless else ("bubble", "span_bubble")))
                good, worst, count = good + (apart <= arguments.points), max(worst, apart), count + 1
                print(f"{schedule:13} {ranks:5} {every:3} {100 * seen['bubble']:15.1f} {100 * told['bubble']:9.1f} "
                      f"{'-' if form is None else format(form, '.1f'):>6} {100 * seen['span_bubble']:16.1f} "
                      f"{100 * told['span_bubble']:9.1f} {apart:12.1f}", flush=True)
    print(f"within {arguments.points:g} points of the simulator: {good} of {count}; the largest difference is {worst:.1f}")


if __name__ == "__main__":
    main()
