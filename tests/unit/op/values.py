#!/usr/bin/env python3
"""Prints values.def: what PyTorch, in float64, gives for some of the cases of cases.c.

A row is the case's name, the projection of its output, and the projections of the gradients of its inputs. Inputs and
projections are simple formulas, repeated in test_values.c. With `specials` prints specials.def: what becomes of NaN
and infinities, one call a row. Run by hand with PyTorch installed:
    python3 tests/unit/op/values.py > tests/unit/op/values.def
    python3 tests/unit/op/values.py specials > tests/unit/op/specials.def
"""
import math
import sys
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def index(shape):
    return torch.arange(math.prod(shape), dtype=torch.int64).reshape(shape)


def floats(k, *shape, positive=False):
    x = ((index(shape) * 37 + k * 101 + 13) % 257 - 128) / 64
    return (x.abs() + 0.5 if positive else x).requires_grad_()


def ints(k, range_, *shape, ignore_every=0):
    i = index(shape)
    x = (i * 7 + k * 3) % range_
    return torch.where(i % ignore_every == 0, -100, x) if ignore_every else x


def project(x):
    weight = ((index(tuple(x.shape)) * 53 + 7) % 127 - 63) / 64
    return float((x.detach().double() * weight).sum())


rows = []


def row(name, function, *inputs):
    for x in inputs:
        if x.is_floating_point():
            x.grad = None
    y = function(*inputs)
    if y.dim() == 0:
        y.backward(torch.tensor(0.375))
    elif y.requires_grad:
        y.backward(floats(8, *y.shape).detach())
    grads = [project(x.grad) for x in inputs if x.is_floating_point() and x.grad is not None]
    rows.append((name, project(y), grads))


def attention(q, k, v, heads, mask=None, causal=False):
    b, t, c = q.shape
    split = lambda x: x.reshape(b, t, heads, c // heads).transpose(1, 2)
    allowed = torch.ones(b, 1, t, t, dtype=torch.bool)
    if causal:
        allowed = allowed & torch.ones(t, t, dtype=torch.bool).tril()
    if mask is not None:
        allowed = allowed & (mask != 0)[:, None, None, :]
    y = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=allowed)
    return torch.nan_to_num(y).transpose(1, 2).reshape(b, t, c)


def packed(qkv, heads, **options):
    """As timm: [B,T,3C] is q, k, v one after another, each split into heads."""
    b, t, c3 = qkv.shape
    q, k, v = qkv.reshape(b, t, 3, c3 // 3).unbind(2)
    return attention(q, k, v, heads, **options)


conv = F.conv2d
row("conv 3x3", lambda x, w, b: conv(x, w, b, padding=1), floats(0, 2, 3, 9, 7), floats(1, 5, 3, 3, 3), floats(2, 5))
row("conv 3x3 stride 2", lambda x, w: conv(x, w, stride=2, padding=1), floats(0, 2, 16, 9, 9), floats(1, 33, 16, 3, 3))
row("conv 7x7 stem", lambda x, w: conv(x, w, stride=2, padding=3), floats(0, 1, 3, 15, 13), floats(1, 8, 3, 7, 7))
row("conv groups", lambda x, w, b: conv(x, w, b, padding=1, groups=3), floats(0, 2, 6, 5, 6), floats(1, 9, 2, 3, 3), floats(2, 9))
row("conv dilation", lambda x, w, b: conv(x, w, b, padding=2, dilation=2), floats(0, 2, 4, 8, 8), floats(1, 4, 4, 3, 3), floats(2, 4))
row("conv uneven", lambda x, w, b: conv(x, w, b, stride=(2, 1), padding=(0, 1), dilation=(1, 2)), floats(0, 2, 3, 7, 8), floats(1, 4, 3, 1, 3), floats(2, 4))
row("conv relu", lambda x, w, b: conv(x, w, b, padding=1).relu(), floats(0, 2, 3, 6, 6), floats(1, 4, 3, 3, 3), floats(2, 4))
row("linear tokens", F.linear, floats(0, 2, 5, 24), floats(1, 17, 24), floats(2, 17))
row("linear tanh", lambda x, w, b: F.linear(x, w, b).tanh(), floats(0, 5, 12), floats(1, 9, 12), floats(2, 9))
row("matmul", torch.matmul, floats(0, 3, 5, 7), floats(1, 3, 7, 4))
row("matmul b'", lambda a, b: a @ b.mT * 0.5, floats(0, 2, 3, 5, 8), floats(1, 2, 3, 6, 8))
row("matmul a'b'", lambda a, b: a.mT @ b.mT * 2, floats(0, 7, 5), floats(1, 4, 7))
norm = lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True, eps=1e-5)
row("batch_norm", norm, floats(0, 4, 5, 3, 3), floats(1, 5), floats(2, 5))
row("batch_norm flat", norm, floats(0, 6, 9), floats(1, 9), floats(2, 9))
row("batch_norm relu", lambda x, s, b: norm(x, s, b).relu(), floats(0, 4, 16, 3, 3), floats(1, 16), floats(2, 16))
with torch.no_grad():
    row("batch_norm_eval", lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b, eps=1e-5), floats(0, 2, 5, 3, 3), floats(1, 5),
        floats(2, 5), floats(3, 5), floats(4, 5, positive=True))
row("layer_norm", lambda x, s, b: F.layer_norm(x, (24,), s, b), floats(0, 3, 5, 24), floats(1, 24), floats(2, 24))
row("relu", F.relu, floats(0, 3, 17))
row("gelu", F.gelu, floats(0, 4, 33))
row("silu", F.silu, floats(0, 4, 33))
row("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), floats(0, 4, 33))
row("tanh", torch.tanh, floats(0, 4, 33))
row("softmax", lambda x: x.softmax(-1), floats(0, 3, 4, 11))
row("log_softmax", lambda x: x.log_softmax(-1), floats(0, 5, 10))
row("nll", lambda x, l: F.nll_loss(x, l, reduction="sum"), floats(0, 6, 10), ints(1, 10, 6, ignore_every=4))
entropy = lambda x, l, s=0.0: F.cross_entropy(x.flatten(0, -2), l.flatten(), reduction="sum", label_smoothing=s)
row("cross_entropy", entropy, floats(0, 6, 10), ints(1, 10, 6))
row("cross_entropy ignore", entropy, floats(0, 2, 8, 33), ints(1, 33, 2, 8, ignore_every=3))
row("cross_entropy smooth", lambda x, l: entropy(x, l, 0.1), floats(0, 7, 10), ints(1, 10, 7, ignore_every=5))
row("attention packed", lambda x: packed(x, 3), floats(0, 2, 5, 72))
row("attention three", lambda q, k, v: attention(q, k, v, 2), floats(0, 2, 7, 16), floats(1, 2, 7, 16), floats(2, 2, 7, 16))
row("attention mask", lambda q, k, v, m: attention(q, k, v, 2, mask=m), floats(0, 3, 6, 8), floats(1, 3, 6, 8), floats(2, 3, 6, 8), ints(3, 2, 3, 6))
row("attention causal", lambda x: packed(x, 1, causal=True), floats(0, 2, 9, 15))
row("embedding", lambda w, i: F.embedding(i, w), floats(0, 13, 6), ints(1, 13, 3, 9))
row("gather_rows", lambda x, i: torch.gather(x, 1, i[:, :, None].expand(-1, -1, 5)), floats(0, 3, 7, 5), ints(1, 7, 3, 4))
row("max_pool", lambda x: F.max_pool2d(x, 2), floats(0, 2, 5, 7, 6))
row("max_pool stem", lambda x: F.max_pool2d(x, 3, 2, 1), floats(0, 2, 16, 9, 9))
row("avg_pool", lambda x: F.avg_pool2d(x, 2), floats(0, 2, 5, 7, 6))
row("avg_pool padded", lambda x: F.avg_pool2d(x, 3, 2, 1), floats(0, 2, 16, 8, 8))
row("avg_pool adaptive", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), floats(0, 2, 4, 7, 5))
row("avg_pool adaptive larger", lambda x: F.adaptive_avg_pool2d(x, (5, 4)), floats(0, 1, 2, 3, 4))
row("add image relu", lambda a, b: (a + b).relu(), floats(0, 2, 5, 3, 3), floats(1, 2, 5, 3, 3))
row("add broadcast", torch.add, floats(0, 4, 5, 6), floats(1, 1, 5, 6))
row("concat 2", lambda a, b: torch.cat([a, b], 1), floats(0, 2, 1, 6), floats(1, 2, 4, 6))
row("slice", lambda x: x[:, 1:4], floats(0, 2, 6, 5))
row("transpose 4", lambda x: x.permute(2, 0, 3, 1), floats(0, 2, 3, 4, 5))

nan, inf = math.nan, math.inf


def special(name, function, x, dy):
    x = torch.tensor(x, requires_grad=True)
    y = function(x)
    y.backward(torch.tensor(dy).reshape(y.shape))
    text = lambda v: "N(" + ", ".join("NAN" if math.isnan(e) else f"{e:.9g}".replace("inf", "INFINITY") for e in v.flatten().tolist()) + ")"
    print(f'SPECIAL("{name}", {text(x.detach())}, {text(torch.tensor(dy))}, {text(y.detach())}, {text(x.grad)})')


def print_specials():
    for name, function in (("relu", F.relu), ("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("tanh", torch.tanh), ("silu", F.silu)):
        special(name, function, [nan, inf, -inf, -1.0], [1.0, 1.0, 1.0, 1.0])
        special(name, function, [2.0, 0.0, -2.0, -2.0], [nan, 1.0, nan, inf])
    for name, function in (("softmax", lambda x: x.softmax(-1)), ("log_softmax", lambda x: x.log_softmax(-1)),
                           ("max_pool", lambda x: F.max_pool1d(x[None], 4)[0])):
        for x in ([0.0, nan, 1.0, 2.0], [nan, inf, 1.0, 2.0], [0.0, inf, 1.0, 2.0], [-inf, 0.5, 1.0, 2.0], [-inf] * 4):
            special(name, function, x, [1.0] if name == "max_pool" else [1.0, 2.0, 3.0, -1.0])
    # Two tokens of one number each, packed: q k v of the first, then of the second. Spelled out, since torch's fused
    # kernel gives 0 for a row of NaN.
    def attend(x):
        q, k, v = x.reshape(2, 3, 1).unbind(1)
        return (q @ k.mT).softmax(-1) @ v

    for q, k, v in (([nan, 1], [1, 1], [1, 2]), ([1, 1], [1, nan], [1, 2]), ([1, 1], [1, 1], [1, nan]), ([-inf, 1], [1, 1], [1, 2]),
                    ([1, 1], [inf, 1], [1, 2]), ([1, 1], [1, 1], [1, inf])):
        x = [float(a) for token in zip(q, k, v) for a in token]
        special("attention", attend, x, [1.0, 2.0])


if sys.argv[1:] == ["specials"]:
    print(f"/* Made by values.py with PyTorch {torch.__version__}: operation, x, dy, y, dx. */")
    print_specials()
    sys.exit()

print(f"/* Made by values.py with PyTorch {torch.__version__}: case, output, gradients of the f32 inputs. */")
for name, output, grads in rows:
    grads = ", ".join(f"{g:.12g}" for g in grads)
    print(f'VALUES("{name}", {output:.12g}, {grads or 0})')
