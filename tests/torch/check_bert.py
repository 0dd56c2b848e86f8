#!/usr/bin/env python3
"""Hugging Face's BERT reads the model that a run of bert-tiny wrote, by the calls of docs/checkpoints.md.

    check_bert.py RUN_DIR

RUN_DIR/../bert is the folder of such a run. The decoder is the word embedding again and is in the
file once: both calls must set it, and miss no other name. Hugging Face writes the same names.
"""

import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, load_model
from transformers import BertConfig, BertForPreTraining

SIZES = {
    "vocab_size": 30522,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
}
failures = 0


def check(good, what, detail=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} - {what}" + (f": {detail}" if detail and not good else ""))


def check_all_set(model, tensors, what):
    state = model.state_dict()
    wrong = [name for name, tensor in tensors.items() if not torch.equal(state[name], tensor)]
    check(not wrong, f"{what}: every tensor of the file is in the model", f"{wrong}")
    decoder, words = model.cls.predictions.decoder, tensors["bert.embeddings.word_embeddings.weight"]
    tied = torch.equal(decoder.weight, words) and torch.equal(decoder.bias, tensors["cls.predictions.bias"])
    check(tied, f"{what}: the decoder is the word embedding")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_bert.py RUN_DIR")
    path = pathlib.Path(sys.argv[1]).parent / "bert" / "model.safetensors"
    config, tensors = BertConfig(**SIZES), load_file(path)
    model = BertForPreTraining(config)
    missing, unexpected = load_model(model, path)
    check(not missing and not unexpected, "load_model", f"{missing} {unexpected}")
    check_all_set(model, tensors, "load_model")
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        shutil.copy(path, folder)
        model, info = BertForPreTraining.from_pretrained(folder, output_loading_info=True)
        check(not any(info.values()), "from_pretrained", f"{info}")
        check_all_set(model, tensors, "from_pretrained")
        model.save_pretrained(folder)
        names = set(load_file(pathlib.Path(folder) / "model.safetensors"))
    check(names == set(tensors), "save_pretrained writes the same names", f"{names ^ set(tensors)}")
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
