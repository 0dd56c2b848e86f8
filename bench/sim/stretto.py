"""Runs of Stretto and their forecasts, as dictionaries."""
import json
import os
import subprocess
import tempfile

NOT_TIMED = 5  # first steps that summary.json leaves out


class Engine:
    def __init__(self, binary):
        self.binary = os.path.abspath(binary)

    def _call(self, command, options):
        done = subprocess.run([self.binary, command, *options], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command} {' '.join(options)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def can(self, options):
        """Whether there is such a plan."""
        return subprocess.run([self.binary, "check", *options], capture_output=True).returncode == 0

    def train(self, options, steps):
        """The summary of a run of so many timed steps, without evaluation and checkpoints."""
        with tempfile.TemporaryDirectory() as folder:
            self._call("train", [*options, "--steps", str(NOT_TIMED + steps), "--eval-every", "never", "--save-every", "never",
                                 "--quiet", "--out", os.path.join(folder, "run")])
            with open(os.path.join(folder, "run", "summary.json")) as file:
                return json.load(file)

    def simulate(self, options):
        return json.loads(self._call("simulate", [*options, "--json"]))
