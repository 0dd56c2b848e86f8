#!/usr/bin/env python3
"""Hugging Face's from_pretrained loads the folder of a run of GPT-2 or BERT, as it is.

    check_pretrained.py RUN_DIR      ($B is the build folder; RUN_DIR is not read)

Nothing is missing from the files, nothing is left over, the heads are the word embeddings, and GPT-2 gives the logits of
`stretto predict`. The same for a pipeline, whose ranks wrote a file each.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import load_file

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
STRETTO = str(pathlib.Path(os.environ.get("B", "build")) / "stretto")
TEXT = "synthetic:kind=text,count=16,test_count=4,seq=16,vocab=300"
MASKED = "synthetic:kind=tokens,count=16,test_count=4,seq=16,predictions=2,vocab=300"
RUNS = [  # model, data, options, class
    ("gpt2-nano", TEXT, [], transformers.GPT2LMHeadModel),
    ("gpt2-nano", TEXT, ["-n", "2", "--strategy", "1f1b", "--micro-batches", "2", "--threads", "1"], transformers.GPT2LMHeadModel),
    ("bert-tiny", MASKED, [], transformers.BertForPreTraining),
    ("bert-tiny", MASKED, ["-n", "2", "--strategy", "gpipe", "--threads", "1"], transformers.BertForPreTraining),
]
failures = 0


def check(good, what, detail=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} - {what}" + (f": {detail}" if detail and not good else ""))


def train(folder, model, data, options):
    subprocess.run([STRETTO, "train", "--model", model, "--data", data, "--batch", "4", "--steps", "3", "--dropout", "0.25",
                    "--eval-every", "never", "--save-every", "never", "--quiet", "--out", folder, *options], check=True)


def check_logits(folder, model, what):
    tokens = numpy.random.default_rng(1).integers(0, 300, (3, 16), dtype=numpy.int64)
    numpy.save(folder / "tokens.npy", tokens)
    subprocess.run([STRETTO, "predict", folder, "--input", folder / "tokens.npy", "--output", folder / "logits.npy", "--as",
                    "logits", "--dtype", "f32", "--quiet"], check=True)
    have = torch.from_numpy(numpy.load(folder / "logits.npy"))
    with torch.no_grad():
        want = model.eval()(torch.from_numpy(tokens)).logits
    check(have.shape == want.shape and torch.allclose(have, want, atol=1e-4), f"{what}: the logits of predict",
          f"{(have - want).abs().max()} apart")


def check_run(folder, row):
    name, data, options, kind = row
    what = " ".join([name, *options])
    train(folder, name, data, options)
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    check(not any(info.values()), f"{what}: from_pretrained", f"{info}")
    check(type(transformers.AutoModelForPreTraining.from_pretrained(folder)) is kind, f"{what}: AutoModelForPreTraining")
    state, wrong, tensors = model.state_dict(), [], 0
    for file in folder.glob("model*.safetensors"):
        for key, tensor in load_file(file).items():
            tensors += 1
            wrong += [key] if not torch.equal(state[key], tensor) else []
    check(tensors > 10 and not wrong, f"{what}: every tensor of the files is in the model", f"{tensors} {wrong}")
    head, words = model.get_output_embeddings(), model.get_input_embeddings()
    check(head.weight is words.weight, f"{what}: the head is the word embedding")
    check(torch.nn.Dropout(0.25).p in {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}, f"{what}: dropout")
    if kind is transformers.GPT2LMHeadModel:
        check_logits(folder, model, what)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        for number, row in enumerate(RUNS):
            check_run(pathlib.Path(name) / str(number), row)
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
