#!/usr/bin/env python3
"""Predicted against measured peak memory of every rank, for combinations of model, strategy and what else takes or saves memory.

A combination is right where each of its ranks is: within 5% of what was measured or 16 MiB; within 5% or 2 MiB where the
measured peak is below 50 MiB. Nothing is timed: the machine need not be quiet. Exit 1 where a combination is not right.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
IMAGES = "--data synthetic:size=32,channels=3,count=128,test_count=64"
MODELS = {
    "mlp": f"--model mlp {IMAGES} --batch 64",
    "resnet8": f"--model resnet8 {IMAGES} --batch 64",
    "resnet18": f"--model resnet18-cifar {IMAGES} --batch 16",
    "vit-micro": f"--model vit-micro {IMAGES} --batch 64",
    "vit-tiny": f"--model vit-tiny --patch 4 {IMAGES} --batch 16",
    "bert-tiny": "--model bert-tiny --data synthetic:kind=tokens,seq=32,count=128,test_count=32 --batch 16",
}
COMBINATIONS = [
    ("mlp", "-n 1"),
    ("resnet18", "-n 1 --micro-batches 4"),
    ("vit-tiny", "-n 1 --micro-batches 2"),
    ("bert-tiny", "-n 1"),
    ("mlp", "-n 4 --strategy ddp"),
    ("resnet8", "-n 2 --strategy ddp --sync-bn --micro-batches 2"),
    ("resnet18", "-n 2 --strategy ddp"),
    ("vit-tiny", "-n 2 --strategy ddp --spawn threads"),
    ("resnet8", "-n 4 --strategy mp --micro-batches 4"),
    ("vit-micro", "-n 2 --strategy pmp --micro-batches 4"),
    ("resnet18", "-n 2 --strategy pmp --micro-batches 4"),
    ("resnet8", "-n 3 --strategy rpc --micro-batches 4"),
    ("vit-tiny", "-n 3 --strategy rpc --micro-batches 4"),
    ("resnet18", "-n 2 --strategy gpipe --micro-batches 4"),
    ("vit-tiny", "-n 2 --strategy gpipe --micro-batches 4 --recompute except-last"),
    ("bert-tiny", "-n 2 --strategy gpipe --micro-batches 4"),
    ("resnet18", "-n 4 --strategy 1f1b --micro-batches 8"),
    ("vit-micro", "-n 4 --strategy 1f1b --micro-batches 8 --recompute always"),
    ("bert-tiny", "-n 2 --strategy 1f1b --micro-batches 8"),
    ("vit-tiny", "-n 2 --strategy interleaved --micro-batches 4"),
    ("resnet8", "-n 4 --strategy interleaved --micro-batches 4"),
    ("resnet18", "-n 2 --strategy zb-h1 --micro-batches 4"),
    ("vit-tiny", "-n 4 --strategy zbv --micro-batches 8"),
    ("vit-micro", "-n 4 --strategy v-half --micro-batches 8"),
    ("resnet18", "-n 4 --strategy gpipe --stages 2 --replicas 2 --micro-batches 2 --sync-bn"),
    ("vit-tiny", "-n 4 --strategy zb-h1 --stages 2 --replicas 2 --micro-batches 4"),
    ("vit-tiny", "-n 4 --strategy zero1"),
    ("resnet18", "-n 4 --strategy zero2"),
    ("vit-tiny", "-n 4 --strategy zero2 --micro-batches 2 --zero-accumulate local"),
    ("vit-tiny", "-n 4 --strategy zero2 --micro-batches 2 --zero-accumulate scatter"),
    ("bert-tiny", "-n 2 --strategy zero3"),
    ("vit-tiny", "-n 4 --strategy zero3 --micro-batches 2 --zero-accumulate scatter"),
    ("vit-tiny", "-n 4 --strategy 1f1b --stages 2 --replicas 2 --zero-stage 1 --micro-batches 4"),
    ("resnet18", "-n 4 --strategy zbv --stages 2 --replicas 2 --zero-stage 2 --zero-accumulate scatter --micro-batches 4"),
    ("vit-tiny", "-n 4 --strategy interleaved --stages 2 --replicas 2 --zero-stage 3 --zero-accumulate local --micro-batches 4"),
]
# Small and quick ones that together have a part of everything.
QUICK = [
    ("vit-micro", "-n 2 --strategy pmp --micro-batches 4"),
    ("resnet8", "-n 3 --strategy rpc --micro-batches 4"),
    ("bert-tiny", "-n 2 --strategy gpipe --micro-batches 4"),
    ("vit-micro", "-n 4 --strategy 1f1b --micro-batches 8 --recompute always"),
    ("resnet8", "-n 2 --strategy interleaved --micro-batches 4"),
    ("vit-micro", "-n 2 --strategy v-half --micro-batches 4"),
    ("resnet8", "-n 4 --strategy gpipe --stages 2 --replicas 2 --micro-batches 2 --sync-bn"),
    ("bert-tiny", "-n 2 --strategy zero3"),
    ("vit-micro", "-n 4 --strategy zbv --stages 2 --replicas 2 --zero-stage 2 --zero-accumulate scatter --micro-batches 4"),
]


def train(binary, model, options):
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "train", *MODELS[model].split(), *options.split(), "--threads", "1", "--steps", "3", "--quiet", "--out",
                   os.path.join(folder, "run")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        with open(os.path.join(folder, "run", "summary.json")) as file:
            return json.load(file)


def bound(measured):
    return max(0.05 * measured, (2 if measured < 50 * MIB else 16) * MIB)


def judge(model, options, summary):
    """Prints the ranks of a combination; returns whether all are inside their bounds, and the largest part of a bound used."""
    used = 0
    for rank, (seen, told) in enumerate(zip(summary["peak_bytes"], summary["predicted_peak_bytes"])):
        off = told - seen
        used = max(used, abs(off) / bound(seen))
        print(f"{model if rank == 0 else '':10} {rank:4} {seen / MIB:9.2f} {told / MIB:9.2f} {off / MIB:+8.2f} {100 * off / seen:+7.1f}%"
              f"  {'' if abs(off) <= bound(seen) else 'OFF'}  {options if rank == 0 else ''}", flush=True)
    return used <= 1, used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--stretto", default="build/stretto", help="the binary")
    parser.add_argument("--quick", action="store_true", help="a few small ones")
    parser.add_argument("--only", default="", help="combinations whose options have this text")
    arguments = parser.parse_args()
    chosen = [(m, o) for m, o in (QUICK if arguments.quick else COMBINATIONS) if arguments.only in f"{m} {o}"]
    print(f"{'model':10} rank  measured predicted    error (MiB)")
    results = [judge(model, options, train(os.path.abspath(arguments.stretto), model, options)) for model, options in chosen]
    right = sum(ok for ok, _ in results)
    print(f"{right} of {len(results)} combinations are inside the bounds; the worst rank uses {max(used for _, used in results):.0%} of its own")
    return 0 if right == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
