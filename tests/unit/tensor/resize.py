"""Makes resize.def: what torch's bicubic interpolation with antialiasing makes of the grids of test_resize.c.

    python tests/unit/tensor/resize.py > tests/unit/tensor/resize.def      (needs torch)

Inputs are a formula of row, column and channel, the same here and there.
"""
import torch

CASES = [(4, 4, 6, 6), (4, 4, 2, 2), (7, 7, 4, 4), (3, 3, 2, 5), (1, 1, 3, 2), (5, 5, 5, 3)]
CHANNELS = 2


def grid(height, width):
    return torch.tensor([[[((r * 37 + c * 53 + n * 29 + 11) % 101 - 50) / 32 for c in range(width)] for r in range(height)]
                         for n in range(CHANNELS)], dtype=torch.float64)


for from_h, from_w, to_h, to_w in CASES:
    out = torch.nn.functional.interpolate(grid(from_h, from_w)[None], (to_h, to_w), mode="bicubic", antialias=True)[0]
    values = ", ".join(f"{x:.8g}" for x in out.permute(1, 2, 0).flatten().tolist())
    print(f"RESIZE({from_h}, {from_w}, {to_h}, {to_w}, {values})")
