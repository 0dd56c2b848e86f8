"""Windows of torchvision's RandomResizedCrop, and sizes of its Resize and CenterCrop, for given draws.

    python tests/unit/data/augment_values.py > tests/unit/data/augment_values.def
"""
import math

import torch
import torchvision.transforms as T
from PIL import Image

SIZES = [(375, 500), (500, 375), (224, 224), (32, 32), (1, 1), (7, 3), (20, 400), (400, 20), (333, 500), (1000, 17)]


class Draws:
    """Numbers in [0,1) in the order in which they are asked for; what is skipped after a refusal is skipped here too."""

    def __init__(self, seed):
        self.seed, self.next = seed, 0

    def __call__(self):
        value = math.fmod((self.next + 1) * 0.6180339887498949 * (self.seed + 1), 1.0)
        self.next += 1
        return value


def crop(height, width, seed):
    draws = Draws(seed)
    asked = [0]

    def uniform(tensor, low, high):
        if asked[0] % 2 == 0:
            draws.next = asked[0] * 2
        asked[0] += 1
        return torch.tensor([low + (high - low) * draws()], dtype=torch.float64)

    def randint(low, high, size):
        return torch.tensor([low + int(draws() * (high - low))])

    kept = torch.Tensor.uniform_, torch.randint
    torch.Tensor.uniform_, torch.randint = uniform, randint
    try:
        return T.RandomResizedCrop.get_params(Image.new("L", (width, height)), [0.08, 1.0], [3 / 4, 4 / 3])
    finally:
        torch.Tensor.uniform_, torch.randint = kept


def centre(height, width, size):
    """The size that Resize gives, and where CenterCrop begins, found in a picture whose pixels are their places."""
    resize = size * 8 // 7
    full = T.Resize(resize)(Image.new("L", (width, height)))
    w, h = full.size
    rows, columns = Image.new("I", (w, h)), Image.new("I", (w, h))
    rows.putdata([y for y in range(h) for _ in range(w)])
    columns.putdata([x for _ in range(h) for x in range(w)])
    crop = T.CenterCrop(size)
    return h, w, crop(rows).getpixel((0, 0)), crop(columns).getpixel((0, 0))


print("/* Made by augment_values.py: torchvision's. CROP(height, width, seed, top, left, height, width),")
print(" * CENTRE(height, width, size, full height, full width, top, left). */")
for height, width in SIZES:
    for seed in range(3):
        print("CROP(%d, %d, %d, %d, %d, %d, %d)" % (height, width, seed, *crop(height, width, seed)))
for height, width in SIZES:
    for size in (224, 33, 8):
        if max(height, width) * size // min(height, width) < 20000:
            print("CENTRE(%d, %d, %d, %d, %d, %d, %d)" % (height, width, size, *centre(height, width, size)))
print("#undef CROP")
print("#undef CENTRE")
