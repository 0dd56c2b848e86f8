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
