"""The cases that both engines are measured on: what Stretto is told, and how PyTorch may run. Needs no PyTorch.

models.py has the same networks for PyTorch. Both count their parameters, and the comparisons stop where these differ.
"""
from typing import NamedTuple

CONVOLUTIONS = ("eager", "channels-last", "channels-last+compile")
TRANSFORMERS = ("eager", "compile")
WORDS, MASKED = 30522, 20  # of bert: the vocabulary, and masked positions of a row, the only ones with a score


class Case(NamedTuple):
    batch: int  # samples of a step
    steps: int  # measured ones of a run
    data: str  # Stretto's, without the number of samples
    options: list  # Stretto's
    variants: tuple  # PyTorch's, of which the best counts
    size: int = 32  # of images; of rows of tokens
    classes: int = 10


SGD = ["--optimizer", "sgd", "--lr", "0.01"]
ADAMW = ["--optimizer", "adamw", "--clip", "0"]


def images(size, classes):
    return f"synthetic:channels=3,size={size},classes={classes}"


CASES = {
    "resnet18-cifar": Case(64, 8, images(32, 10), SGD, CONVOLUTIONS),
    "vit-tiny": Case(64, 8, images(32, 10), [*ADAMW, "--patch", "4"], TRANSFORMERS),
    "resnet50": Case(8, 5, images(224, 1000), SGD, CONVOLUTIONS, 224, 1000),
    "bert-base": Case(4, 5, f"synthetic:kind=tokens,seq=128,predictions={MASKED},vocab={WORDS}", ADAMW, TRANSFORMERS, 128),
}

# On GPUs: network, batch, element type, and what is Stretto's alone. Names are those of --cases.
LETTERS = 50257  # of gpt2: the vocabulary


class GpuCase(NamedTuple):
    network: str
    batch: int
    dtype: str
    data: str
    options: list
    variants: tuple
    size: int
    classes: int = 1000


PICTURES = ("eager", "channels-last", "compile", "reduce-overhead", "max-autotune")
TEXTS = ("eager", "compile", "reduce-overhead", "max-autotune")
MOMENTUM = [*SGD, "--momentum", "0.9"]
TOKENS = f"synthetic:kind=tokens,seq=128,predictions={MASKED},vocab={WORDS}"
GPU_CASES = {
    "resnet50-b64": GpuCase("resnet50", 64, "bf16", images(224, 1000), MOMENTUM, PICTURES, 224),
    "vit-base-b64": GpuCase("vit-base", 64, "bf16", images(224, 1000), [*ADAMW, "--patch", "16"], TEXTS, 224),
    "bert-base-b64": GpuCase("bert-base", 64, "bf16", TOKENS, ADAMW, TEXTS, 128),
    "resnet50-b256": GpuCase("resnet50", 256, "bf16", images(224, 1000), MOMENTUM, PICTURES, 224),
    "resnet50-b256-f16": GpuCase("resnet50", 256, "f16", images(224, 1000), MOMENTUM, PICTURES, 224),
    "vit-base-b256": GpuCase("vit-base", 256, "bf16", images(224, 1000), [*ADAMW, "--patch", "16"], TEXTS, 224),
    "bert-base-b256": GpuCase("bert-base", 256, "bf16", TOKENS, ADAMW, TEXTS, 128),
    "resnet18-cifar-b128": GpuCase("resnet18-cifar", 128, "bf16", images(32, 10), MOMENTUM, PICTURES, 32, 10),
    "gpt2-b16": GpuCase("gpt2", 16, "bf16", f"synthetic:kind=text,seq=1024,vocab={LETTERS}", [*ADAMW, "--dropout", "0"], TEXTS, 1024),
    "resnet50-b64-tf32": GpuCase("resnet50", 64, "tf32", images(224, 1000), MOMENTUM, PICTURES, 224),
}
