"""A training run of Stretto on synthetic data (32x32 images unless told), for the comparisons beside it. Needs no PyTorch."""
import json
import os
import subprocess
import sys
import tempfile

CLASSES = 10
NOT_TIMED = 5  # first steps that Stretto's summary leaves out


def run(binary, model, batch, steps, options, before=(), environment=None, data=f"synthetic:channels=3,size=32,classes={CLASSES}"):
    """summary.json of a run with so many timed steps; `before` is put before the command."""
    steps += NOT_TIMED
    data = f"{data},count={batch * steps},test_count={batch}"
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        command = [*before, binary, "train", "--model", model, "--data", data, "--batch", str(batch)]
        command += ["--steps", str(steps), "--out", out, "--quiet", *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
        with open(os.path.join(out, "summary.json")) as file:
            return json.load(file)
