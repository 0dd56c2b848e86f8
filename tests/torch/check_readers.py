#!/usr/bin/env python3
"""Checks a run's folder with the stock readers: tensorboard, safetensors and torch.

    check_readers.py RUN_DIR

A line a check, "ok" or "not ok"; exit code 1 when any is not. What is compared with what:
event files with metrics.jsonl (each value, to the last bit of a float32), model.safetensors and the
checkpoints with what the reference library would have written, summary.json with both.
"""

import json
import math
import pathlib
import sys
import tempfile

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SHOWN = {"train": ("loss", "lr", "grad_norm", "samples_per_s"), "eval": ("loss", "acc1", "acc5")}
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")

failures = 0


def check(good, what, detail=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} - {what}" + (f": {detail}" if detail and not good else ""))


def unique_keys(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key is there twice: {keys}")
    return dict(pairs)


def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def strict_json(text):
    return json.loads(text, object_pairs_hook=unique_keys, parse_constant=no_constant)


def expected_scalars(rows):
    """{tag: [(step, float32)]} that the event files must hold."""
    scalars = {}
    for row in rows:
        for key in SHOWN[row["kind"]]:
            if row[key] is not None:
                tag = f"{row['kind']}/{key}"
                scalars.setdefault(tag, []).append((row["step"], float(numpy.float32(row[key]))))
    return scalars


def check_events(folder, rows):
    check(any(folder.glob("events.out.tfevents.*")), "there are event files")
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    tags, expected = events.Tags()["scalars"], expected_scalars(rows)
    check(set(tags) == set(expected), "TensorBoard shows the metrics", f"{tags} for {list(expected)}")
    for tag in sorted(set(tags) & set(expected)):
        read = [(event.step, event.value) for event in events.Scalars(tag)]
        wrong = [pair for pair in zip(read, expected[tag]) if pair[0] != pair[1]]
        check(
            not wrong and len(read) == len(expected[tag]),
            f"{tag}: {len(expected[tag])} values as in metrics.jsonl",
            f"{len(read)} read, {len(wrong)} differ, first {wrong[:1]}",
        )


def check_tensors(path):
    """Loads a file; returns its tensors."""
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    floats = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    finite = all(torch.isfinite(tensor).all() for tensor in floats)
    check(finite, f"{path.name}: torch loads {len(tensors)} tensors, all finite")
    if metadata is None or len(metadata) <= 1:  # the reference library has no order for several
        with tempfile.TemporaryDirectory() as scratch:
            again = pathlib.Path(scratch) / "again.safetensors"
            save_file(tensors, again, metadata=metadata)
            same = again.read_bytes() == path.read_bytes()
        check(same, f"{path.name}: the reference library writes the same bytes")
    return tensors


def close(a, b):
    return a is None or b is None or math.isclose(a, b, rel_tol=1e-6)


def check_summary(summary, rows, tensors):
    last = {row["kind"]: row for row in rows}
    if "train" in last:
        loss = last["train"]["loss"]
        check(close(summary["loss_last"], loss), "summary.json: loss_last", f"{summary['loss_last']}, {loss}")
    for key, row_key in (("eval_loss", "loss"), ("acc1", "acc1"), ("acc5", "acc5")):
        if "eval" in last:
            value = last["eval"][row_key]
            check(close(summary[key], value), f"summary.json: {key}", f"{summary[key]}, {value}")
    count = sum(tensor.numel() for name, tensor in tensors.items() if not name.endswith(BUFFERS))
    check(summary["params"] in (None, count), "summary.json: params", f"{summary['params']}, {count} in the file")


def check_trace(trace):
    events = trace["traceEvents"]
    kinds = {event["ph"] for event in events}
    check({"X", "M"} <= kinds, "trace.json: events and names", f"{kinds}")
    good = all(event["dur"] >= 0 and event["ts"] >= 0 for event in events if event["ph"] == "X")
    check(good, "trace.json: times from 0 up")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_readers.py RUN_DIR")
    folder = pathlib.Path(sys.argv[1])
    rows = [strict_json(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    check(len(rows) > 0, f"metrics.jsonl: {len(rows)} rows")
    check_events(folder, rows)
    tensors = check_tensors(folder / "model.safetensors")
    for path in sorted(folder.glob("checkpoints/**/*.safetensors")):
        check_tensors(path)
    check_summary(strict_json((folder / "summary.json").read_text()), rows, tensors)
    check_trace(strict_json((folder / "trace.json").read_text()))
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
