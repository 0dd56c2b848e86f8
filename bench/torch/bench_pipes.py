#!/usr/bin/env python3
"""Pipelines and ZeRO: Stretto against its own single device and against PyTorch over gloo, in turns.

Pipelines against torch.distributed.pipelining; zero1 against ZeroRedundancyOptimizer, zero2 and zero3 against FSDP2 that keeps or
reshards its parameters. Two ranks of one thread each, one global batch. Every run is fresh, the engines alternate, a run gives the
median of its steps after a warm-up, the table shows medians over the rounds. Each engine runs as well as it can: PyTorch eager and
channels-last, its stages cut by layer count and by flops; Stretto cut by --balance flops and by --balance time from a profile taken
at the beginning. The first round runs all of them, the later ones each engine's best way of a row, and the second if it is within --near
percent of it.

T1(M) is `--strategy single --micro-batches M` of Stretto. efficiency = T1(M) / (ranks * (1 - bubble) * time), where bubble is the
schedule's own at equal costs of its passes (simulate --costs f=1,i=1,w=1,c=0): 1.00 would be the time that the schedule promises.
against torch = PyTorch's time / Stretto's. What is asked for stands in brackets behind what was reached.
"""
import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import stretto

HERE = os.path.dirname(os.path.abspath(__file__))
EFFICIENCY = 0.93  # asked of every pipeline
GROWTH = 1.08      # T1(4) / T1(1) asked of resnet18-cifar
# Stretto's strategy, micro-batches, PyTorch's schedule or sharding, stages of a rank (0: no pipeline), and how many times faster
# than PyTorch it is expected to be: vit-tiny, resnet18-cifar
ROWS = [
    ("gpipe", 4, "ScheduleGPipe", 1, 1.25, 1.8),
    ("1f1b", 4, "Schedule1F1B", 1, 1.1, 1.9),
    ("1f1b", 8, "Schedule1F1B", 1, 1.25, 1.95),
    ("interleaved", 4, "ScheduleInterleaved1F1B", 2, 1.2, 2.2),
    ("zbv", 4, "ScheduleInterleavedZeroBubble", 2, 1.2, 2.0),
    ("zero1", 1, "ZeroRedundancyOptimizer", 0, 1.2, 2.0),
    ("zero2", 1, "FSDP2 keeping", 0, 1.4, 2.2),
    ("zero3", 1, "FSDP2 resharding", 0, 1.2, 2.0),
]
MODELS = ("vit-tiny", "resnet18-cifar")
OPTIONS = {"vit-tiny": ["--optimizer", "adamw", "--patch", "4", "--clip", "0"],
           "resnet18-cifar": ["--optimizer", "sgd", "--lr", "0.01"]}


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def words(text):
    return text.split(",")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--models", type=words, default=list(MODELS), help="networks")
    parser.add_argument("--rows", type=words, default=None, help="strategies, of: " + ",".join(sorted({row[0] for row in ROWS})))
    parser.add_argument("--variants", type=words, default=["eager", "channels-last"], help="of PyTorch")
    parser.add_argument("--cuts", type=words, default=["layers", "flops"], help="of PyTorch's pipelines")
    parser.add_argument("--balances", type=words, default=["flops", "time"], help="of Stretto's pipelines")
    parser.add_argument("--batch", type=int, default=64, help="images of a step, of all ranks together")
    parser.add_argument("--ranks", type=int, default=2, help="of either engine")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=8, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=2, help="steps of PyTorch before them")
    parser.add_argument("--near", type=float, default=5, help="percent behind the best way: the second runs in later rounds, too")
    parser.add_argument("--time-limit", type=int, default=600, help="seconds for a run of PyTorch")
    parser.add_argument("--no-torch", action="store_true", help="Stretto alone")
    parser.add_argument("--quick", action="store_true", help="one round of two steps: does everything run?")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.steps, arguments.warmup = 1, 2, 1
    arguments.rows = [row for row in ROWS if not arguments.rows or row[0] in arguments.rows]
    for model in arguments.models:
        if model not in MODELS:
            parser.error(f"--models: {model} is none of {', '.join(MODELS)}")
    return arguments


# --- PyTorch ---


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_all(children, seconds):
    """True where all ended well; else none is left."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        codes = [child.poll() for child in children]
        if all(code == 0 for code in codes):
            return True
        if any(codes):
            break
        time.sleep(0.05)
    for child in children:
        child.kill()
        child.wait()
    return False


def run_torch(arguments, model, row, variant, cut):
    """Median step in ms and the bounds of the stages, or None where PyTorch refuses or fails, which is said once."""
    _, micros, kind, chunks, _, _ = row
    job = {"model": model, "kind": kind, "micros": micros, "chunks": chunks, "variant": variant, "cut": cut,
           "classes": stretto.CLASSES, "port": free_port()}
    for name in ("batch", "ranks", "steps", "warmup"):
        job[name] = getattr(arguments, name)
    children, logs = [], [tempfile.TemporaryFile() for _ in range(2 * arguments.ranks)]
    for rank in range(arguments.ranks):
        command = [arguments.python, os.path.join(HERE, "torch_ranks.py"), json.dumps(dict(job, rank=rank))]
        children.append(subprocess.Popen(command, stdout=logs[2 * rank], stderr=logs[2 * rank + 1],
                                         env=dict(os.environ, OMP_NUM_THREADS="1")))
    done = await_all(children, arguments.time_limit)
    texts = []
    for log in logs:
        log.seek(0)
        texts.append(log.read().decode(errors="replace"))
        log.close()
    if not done:
        said = next((text.strip().splitlines()[-1] for text in texts[1::2] if text.strip()), "no answer")
        print(f"# {model}, PyTorch {kind}, {variant} {cut or ''}: failed: {said[:200]}", flush=True)
        return None
    answer = json.loads(texts[0].splitlines()[-1])
    return statistics.median(answer["step_ms"]), answer["bounds"]


# --- Stretto ---


def run_stretto(arguments, model, options):
    quiet = ["--eval-every", "never", "--save-every", "never", "--threads", "1"]
    summary = stretto.run(arguments.stretto, model, arguments.batch, arguments.steps, [*options, *quiet, *OPTIONS[model]])
    return summary["step_ms"]["p50"]


def take_profile(arguments, folder, model, micros):
    """Of the micro-batches of a pipeline, on ranks that all compute: its file."""
    path = os.path.join(folder, f"{model}-{micros}")
    if not os.path.exists(path):
        size = arguments.batch // micros
        options = ["--strategy", "ddp", "-n", str(arguments.ranks), "--micro-batches", "2", "--threads", "1", "--eval-every", "never",
                   "--save-every", "never", "--save-profile", path]
        steps = max(arguments.steps, 5)
        stretto.run(arguments.stretto, model, 2 * size * arguments.ranks, steps, [*options, *OPTIONS[model]])
    return path


def strategy_options(arguments, folder, model, row, balance):
    strategy, micros, _, chunks, _, _ = row
    if not chunks:
        return ["--strategy", strategy, "-n", str(arguments.ranks)]
    options = ["--strategy", strategy, "--stages", str(arguments.ranks), "--micro-batches", str(micros), "--balance", balance]
    return options + (["--profile", take_profile(arguments, folder, model, micros)] if balance == "time" else [])


def promised_bubble(arguments, strategy, micros):
    """Of the schedule at equal costs."""
    command = [arguments.stretto, "simulate", "--strategy", strategy, "--stages", str(arguments.ranks), "--batch", "64",
               "--model", "resnet18-cifar", "--data", "synthetic:channels=3,size=32,classes=10,count=64",
               "--micro-batches", str(micros), "--costs", "f=1,i=1,w=1,c=0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout)["bubble"] if done.returncode == 0 else float("nan")


# --- rounds ---


def ways_of(arguments, row):
    """(engine, way, ...): how a row may run."""
    pipeline = row[3] > 0
    ways = [("stretto", balance) for balance in (arguments.balances if pipeline else ["whole"])]
    if not arguments.no_torch:
        ways += [("torch", variant, cut) for variant in arguments.variants for cut in (arguments.cuts if pipeline else [None])]
    return ways


def run_way(arguments, folder, model, row, way):
    if way[0] == "stretto":
        return run_stretto(arguments, model, strategy_options(arguments, folder, model, row, way[1])), []
    return run_torch(arguments, model, row, way[1], way[2])


def worth_running(times, bounds, near):
    """Of each engine its best two, if they are near one another and not the same cut."""
    kept = []
    for engine in ("stretto", "torch"):
        first, *others = sorted((way for way in times if way[0] == engine and times[way]), key=lambda way: times[way][0]) or [None]
        kept += [first] if first else []
        for way in others:
            same = engine == "torch" and first[1] == way[1] and bounds[first] == bounds[way]
            if not same and times[way][0] <= times[first][0] * (1 + near / 100):
                kept.append(way)
                break
    return kept


def measure(arguments, folder, model):
    """{row: {way: times}} and {M: times of one device}."""
    rows = {row: {way: [] for way in ways_of(arguments, row)} for row in arguments.rows}
    ways = {row: list(rows[row]) for row in rows}
    bounds = {row: {} for row in rows}
    single = {micros: [] for micros in sorted({1, *(row[1] for row in rows)})}
    for index in range(arguments.rounds):
        for micros in single:
            single[micros].append(run_stretto(arguments, model, ["--micro-batches", str(micros)]))
        for row in rows:
            for way in ways[row]:
                result = run_way(arguments, folder, model, row, way)
                if result:
                    rows[row][way].append(result[0])
                    bounds[row][way] = result[1]
            said = "  ".join(f"{' '.join(filter(None, way))} {rows[row][way][-1]:.0f}" for way in ways[row] if rows[row][way])
            print(f"# {model}, {row[0]}, M {row[1]}, round {index + 1}, ms: {said}", file=sys.stderr, flush=True)
            if index == 0:
                ways[row] = worth_running(rows[row], bounds[row], arguments.near)
    return rows, single


# --- tables ---


def best_of(times, engine):
    """(median, its way) of an engine's best way, or None."""
    medians = [(statistics.median(of), way) for way, of in times.items() if way[0] == engine and of]
    return min(medians) if medians else None


def judge(arguments, model, row, times, single):
    strategy, micros, kind, chunks, *expected = row
    own, way = best_of(times, "stretto")
    result = {"model": model, "strategy": strategy, "micro_batches": micros, "stretto_ms": own, "stretto_way": way[1],
              "single_ms": statistics.median(single[micros]), "torch": kind, "expected_ratio": expected[MODELS.index(model)],
              "all_ms": {" ".join(filter(None, name)): of for name, of in times.items()}}
    if chunks:
        result["bubble"] = promised_bubble(arguments, strategy, micros)
        result["efficiency"] = result["single_ms"] / (arguments.ranks * own) / (1 - result["bubble"])
        result["required_efficiency"] = EFFICIENCY
    other = best_of(times, "torch")
    if other:
        result.update(torch_ms=other[0], torch_way=" ".join(filter(None, other[1][1:])), ratio=other[0] / own)
    return result


def print_rows(results):
    print(f"{'':12}{'M':>3}{'Stretto':>9} {'cut by':7}{'T1(M)':>9}{'bubble':>8}{'efficiency':>15}{'PyTorch':>9} {'its way':22}{'against torch':>14}")
    for of in results:
        line = f"{of['strategy']:12}{of['micro_batches']:>3}{of['stretto_ms']:>9.1f} {of['stretto_way']:7}{of['single_ms']:>9.1f}"
        if "bubble" in of:
            line += f"{of['bubble']:>8.3f}{of['efficiency']:>8.3f} [{of['required_efficiency']:.2f}]"
        else:
            line += " " * 23
        if "ratio" in of:
            line += f"{of['torch_ms']:>9.1f} {of['torch_way']:22}{of['ratio']:>7.2f}x [{of['expected_ratio']:.2f}]"
        print(line, flush=True)


def bench(arguments, folder, model):
    rows, single = measure(arguments, folder, model)
    results = [judge(arguments, model, row, times, single) for row, times in rows.items()]
    print(f"\n{model}, batch {arguments.batch}, {arguments.ranks} ranks of 1 thread, {arguments.rounds} rounds of {arguments.steps} steps, ms a step")
    print_rows(results)
    if 4 in single:
        growth = statistics.median(single[4]) / statistics.median(single[1])
        print(f"T1(4) / T1(1) = {growth:.3f}" + (f" [at most {GROWTH}]" if model == "resnet18-cifar" else ""), flush=True)
    return {"rows": results, "single_ms": single}


def versions(arguments):
    """What runs, in words; ends where PyTorch is asked for and is not there."""
    said = {"stretto": subprocess.run([arguments.stretto, "--version"], capture_output=True, text=True).stdout.strip().split()[-1],
            "machine": platform.machine(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    with open("/proc/cpuinfo") as file:
        said["processor"] = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    if not arguments.no_torch:
        ask = ("import json, platform, torch; print(json.dumps({'torch': torch.__version__, 'python': platform.python_version(), "
               "'onednn': next((l.strip(' -') for l in torch.__config__.show().splitlines() if 'DNN' in l and ' v' in l), '')}))")
        done = subprocess.run([arguments.python, "-c", ask], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: {arguments.python} has no PyTorch (--python names another, --no-torch does without):\n{done.stderr[-500:]}")
        said.update(json.loads(done.stdout.splitlines()[-1]))
    return said


def write_json(path, content):
    with open(path + ".part", "w") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".part", path)


def main():
    arguments = parse_arguments()
    arguments.stretto = os.path.abspath(arguments.stretto)
    about = versions(arguments)
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            results[model] = bench(arguments, folder, model)
            if arguments.json:
                write_json(arguments.json, {"about": about, "batch": arguments.batch, "ranks": arguments.ranks,
                                            "rounds": arguments.rounds, "steps": arguments.steps, "models": results})


if __name__ == "__main__":
    main()
