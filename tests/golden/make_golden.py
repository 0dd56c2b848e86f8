#!/usr/bin/env python3
"""Makes the golden vectors: make_golden.py DUMP_PROGRAM OUT_FOLDER [CASE...]

Each model is written here once more, plainly, in PyTorch and float64, trained for ten steps from the same weights on the
same batches (both come from the program tests/golden/dump.c), and described by a few numbers a tensor: norm, sampled entries
and random projections of the first gradients and of the running statistics after them; all losses. No schedule, clipping, decay or dropout.

The gradient jumps where a ReLU's input or the difference of two candidates of a max pooling is zero. A batch that comes nearer
to such a point than float32 can tell has no gradient that all kernels agree on, and from there on runs part ways: with batches
taken as they come, resnet18-cifar's losses differ by 1e-3 after ten steps even between PyTorch's own kernels, where they agree
to 1e-6 as long as no ReLU falls on the other side. So every step's batch is drawn with seed 1, 2, ... until one keeps away from
all such points by MARGIN, given the weights of that step. The seeds are part of the vectors. At the end PyTorch's own float32,
from weights disturbed by NUDGE, must stay within SMOOTH of all losses: the case is one that float32 can be held to.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import load_file
from torch import nn

STEPS, SAMPLES, PROJECTIONS, LEARNING_RATE = 10, 12, 3, 1e-3
EVERY = {"gpt2-nano": 4}  # of so many tensors in a row one is written down
LOGITS = ("resnet18", "resnet50", "resnet56", "pyramidnet")  # ten steps of these are chaos: see above; their logits are not
MARGIN = 1.5e-5
NUDGES, NUDGE, SMOOTH = 4, 1e-7, 5e-5

# --- distance to the nearest kink ----------------------------------------------------------------------------------
nearest = math.inf


def keep_away(distance):
    global nearest
    if distance.numel():
        nearest = min(nearest, distance.min().item())


def relu(x):
    keep_away(x.detach().abs())
    return F.relu(x)


def max_pool(x):
    """2x2. Two candidates that are both zero after a ReLU pass nothing on, whichever is taken."""
    windows = F.unfold(x.detach().flatten(0, 1).unsqueeze(1), 2, stride=2)
    best = windows.topk(2, dim=1).values
    keep_away((best[:, 0] - best[:, 1])[best[:, 0] > 0])
    return F.max_pool2d(x, 2)


# --- models --------------------------------------------------------------------------------------------------------
class Mlp(nn.Module):
    def __init__(self, image, classes):
        super().__init__()
        self.fc1 = nn.Linear(image.numel() // len(image), 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc3(relu(self.fc2(relu(self.fc1(x.flatten(1))))))


class LeNet(nn.Module):
    def __init__(self, image, classes):
        super().__init__()
        side = (image.shape[2] // 2 - 4) // 2
        self.conv1 = nn.Conv2d(image.shape[1], 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * side * side, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = max_pool(relu(self.conv1(x)))
        x = max_pool(relu(self.conv2(x)))
        return self.fc3(relu(self.fc2(relu(self.fc1(x.flatten(1))))))


class BasicBlock(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or before != width:
            self.downsample = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, image, classes, groups, blocks, width):
        super().__init__()
        self.conv1 = nn.Conv2d(image.shape[1], width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.groups = []
        for group in range(groups):
            after = width * (1 if group == 0 else 2)
            stride = 1 if group == 0 else 2
            layer = nn.Sequential(*[BasicBlock(width if i == 0 else after, after, stride if i == 0 else 1)
                                    for i in range(blocks)])
            self.groups.append(f"layer{group + 1}")
            setattr(self, self.groups[-1], layer)
            width = after
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = relu(self.bn1(self.conv1(x)))
        for name in self.groups:
            x = getattr(self, name)(x)
        return self.fc(x.mean(dim=(2, 3)))


class PyramidBlock(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.width, self.stride = width, stride
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = self.bn3(self.conv2(relu(self.bn2(self.conv1(self.bn1(x))))))
        if self.stride == 2:
            x = F.avg_pool2d(x, 2)
        return y + F.pad(x, (0, 0, 0, 0, 0, self.width - x.shape[1]))


class PyramidNet(nn.Module):
    def __init__(self, image, classes):
        super().__init__()
        width = 16
        self.conv1 = nn.Conv2d(image.shape[1], width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for group in range(3):
            blocks = [PyramidBlock(width + 5 * i, width + 5 * i + 5, 2 if group and i == 0 else 1) for i in range(17)]
            setattr(self, f"layer{group + 1}", nn.Sequential(*blocks))
            width += 5 * 17
        self.bn_out = nn.BatchNorm2d(width)
        self.fc_out = nn.Linear(width, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.bn1(self.conv1(x)))))
        return self.fc_out(relu(self.bn_out(x)).mean(dim=(2, 3)))


def attend(q, k, v, heads, mask=None, causal=False):
    """[B,T,C] each; mask [B,T], 1 where a token may be looked at; causal: no later token may be."""
    b, t, c = q.shape
    q, k, v = (x.reshape(b, t, heads, c // heads).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(c // heads)
    if mask is not None:
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -math.inf)
    if causal:
        scores = scores.masked_fill(torch.ones(t, t).triu(1) == 1, -math.inf)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, c)


class VitAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        return self.proj(attend(*self.qkv(x).chunk(3, dim=-1), self.heads))


class VitMlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class VitBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = VitAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = VitMlp(width, hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, image, classes, depth, width, heads, hidden, patch):
        super().__init__()
        tokens = 1 + (image.shape[2] // patch) * (image.shape[3] // patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(image.shape[1], width, patch, patch)})
        self.blocks = nn.Sequential(*[VitBlock(width, heads, hidden) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Tree(nn.Module):
    """Only names: Tree(a=..., b=...) has the children a and b."""

    def __init__(self, /, **children):
        super().__init__()
        for name, child in children.items():
            setattr(self, name, child)


class BertLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.attention = Tree(
            self=Tree(query=nn.Linear(width, width), key=nn.Linear(width, width), value=nn.Linear(width, width)),
            output=Tree(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12)))
        self.intermediate = Tree(dense=nn.Linear(width, hidden))
        self.output = Tree(dense=nn.Linear(hidden, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))

    def forward(self, x, mask):
        self_, out = getattr(self.attention, "self"), self.attention.output
        y = attend(self_.query(x), self_.key(x), self_.value(x), self.heads, mask)
        x = out.LayerNorm(out.dense(y) + x)
        y = self.output.dense(F.gelu(self.intermediate.dense(x)))
        return self.output.LayerNorm(y + x)


class Bert(nn.Module):
    def __init__(self, vocabulary, depth, width, heads, hidden):
        super().__init__()
        self.bert = Tree(
            embeddings=Tree(word_embeddings=nn.Embedding(vocabulary, width, padding_idx=0),
                            position_embeddings=nn.Embedding(512, width),
                            token_type_embeddings=nn.Embedding(2, width),
                            LayerNorm=nn.LayerNorm(width, eps=1e-12)),
            encoder=Tree(layer=nn.ModuleList([BertLayer(width, heads, hidden) for _ in range(depth)])),
            pooler=Tree(dense=nn.Linear(width, width)))
        self.cls = Tree(
            predictions=Tree(bias=nn.Parameter(torch.zeros(vocabulary)),
                             transform=Tree(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))),
            seq_relationship=nn.Linear(width, 2))

    def forward(self, batch):
        parts, ids = self.bert.embeddings, batch["input_ids"]
        x = parts.word_embeddings(ids) + parts.token_type_embeddings(batch["segment_ids"])
        x = parts.LayerNorm(x + parts.position_embeddings(torch.arange(ids.shape[1])))
        for layer in self.bert.encoder.layer:
            x = layer(x, batch["input_mask"])
        words, heads = self.cls.predictions, self.cls
        rows = batch["masked_positions"][:, :, None].expand(-1, -1, x.shape[2])
        y = words.transform.LayerNorm(F.gelu(words.transform.dense(x.gather(1, rows))))
        return (F.linear(y, parts.word_embeddings.weight, words.bias),
                heads.seq_relationship(torch.tanh(self.bert.pooler.dense(x[:, 0]))))

    def losses(self, batch):
        words, sentence = self(batch)
        return [F.cross_entropy(words.flatten(0, 1), batch["masked_labels"].flatten(), ignore_index=-100),
                F.cross_entropy(sentence, batch["next_sentence"])]


class Turned(nn.Module):
    """A linear layer whose weight is [inputs, outputs]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Tree(c_attn=Turned(width, 3 * width), c_proj=Turned(width, width))
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Tree(c_fc=Turned(width, hidden), c_proj=Turned(hidden, width))

    def forward(self, x):
        parts = self.attn.c_attn(self.ln_1(x)).chunk(3, dim=-1)
        x = x + self.attn.c_proj(attend(*parts, self.heads, causal=True))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, depth, width, heads, hidden):
        super().__init__()
        self.transformer = Tree(wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(1024, width),
                                h=nn.ModuleList([Gpt2Block(width, heads, hidden) for _ in range(depth)]),
                                ln_f=nn.LayerNorm(width))

    def losses(self, batch):
        parts, ids = self.transformer, batch["input_ids"]
        x = parts.wte(ids) + parts.wpe(torch.arange(ids.shape[1]))
        for block in parts.h:
            x = block(x)
        logits = F.linear(parts.ln_f(x), parts.wte.weight)
        return [F.cross_entropy(logits.flatten(0, 1), batch["next_ids"].flatten())]


def make_model(name, start, batch):
    """The model of a case, sized by its own weights and batches."""
    image = batch.get("image")
    if name == "bert-tiny":
        return Bert(len(start["cls.predictions.bias"]), 2, 128, 2, 512)
    if name == "gpt2-nano":
        return Gpt2(len(start["transformer.wte.weight"]), 4, 128, 4, 512)
    if name in ("resnet18", "resnet50"):
        return getattr(torchvision.models, name)(num_classes=len(start["fc.bias"]))
    if name == "pyramidnet":
        return PyramidNet(image, len(start["fc_out.bias"]))
    if name == "mlp":
        return Mlp(image, len(start["fc3.bias"]))
    if name == "lenet":
        return LeNet(image, len(start["fc3.bias"]))
    if name.startswith("resnet"):
        sizes = {"resnet8": (3, 1, 16), "resnet20": (3, 3, 16), "resnet56": (3, 9, 16), "resnet18-cifar": (4, 2, 64)}
        return ResNet(image, len(start["fc.bias"]), *sizes[name])
    sizes = {"vit-micro": (4, 64, 4, 128), "vit-tiny": (12, 192, 3, 768)}
    return Vit(image, len(start["head.bias"]), *sizes[name], start["patch_embed.proj.weight"].shape[2])


def losses_of(model, batch):
    if hasattr(model, "losses"):
        return model.losses(batch)
    return [F.cross_entropy(model(batch["image"]), batch["label"])]


# --- what is written down ------------------------------------------------------------------------------------------
def mix(x):
    x = x + numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def keys(parent, count):
    """rng_key(parent, 0 .. count-1) of src/base/rng.c."""
    parent = mix(numpy.array([parent], dtype=numpy.uint64))
    return mix(parent ^ numpy.arange(count, dtype=numpy.uint64))


def number(x):
    return float(f"{float(x):.8g}")


def describe(tensor):
    flat = tensor.detach().reshape(-1).double().numpy()
    at = [int(k) for k in keys(0, SAMPLES) % numpy.uint64(len(flat))]
    signs = [numpy.where(keys(k + 1, len(flat)) & numpy.uint64(1), 1.0, -1.0) for k in range(PROJECTIONS)]
    return {"count": len(flat),
            "norm": number(numpy.linalg.norm(flat)),
            "projections": [number(sign @ flat) for sign in signs],
            "samples": [number(flat[i]) for i in at]}


def load(path):
    """(initial parameters, batches)"""
    start, batches = {}, [{} for _ in range(STEPS)]
    for name, tensor in load_file(path).items():
        kind, rest = name.split(".", 1)
        if kind == "param":
            start[rest] = tensor.double()
        else:
            step, field = rest.split(".", 1)
            batches[int(step)][field] = tensor.double() if tensor.is_floating_point() else tensor.long()
    return start, batches


def dump(program, case, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "start.safetensors")
        subprocess.run([program, case, str(seed), path], check=True)
        return load(path)


def prepared(case, start, batch):
    model = make_model(case, start, batch).double().train()
    own = [name for name, _ in model.named_parameters()]
    assert sorted(own) == sorted(start), f"{case}: parameters differ: {set(own) ^ set(start)}"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            assert parameter.shape == start[name].shape, f"{case}: {name} is {tuple(start[name].shape)}"
            parameter.copy_(start[name])
    return model


def optimizer_of(case, model):
    if case.startswith(("vit", "bert", "gpt2")):
        return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0)
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)


def train(case, model, batch_of):
    """Losses of all steps; gradients and buffers of the first. batch_of(step, model) gives the batches."""
    optimizer = optimizer_of(case, model)
    losses, gradients, buffers = [], None, None
    for step in range(STEPS):
        batch = batch_of(step, model)
        optimizer.zero_grad()
        terms = losses_of(model, batch)
        sum(terms).backward()
        if not losses:
            gradients = {name: describe(p.grad) for name, p in model.named_parameters()}
            buffers = {name: describe(buffer) for name, buffer in model.named_buffers()}
        losses.append([number(term.detach()) for term in terms])
        optimizer.step()
    return losses, gradients, buffers


def distance_to_kinks(model, batch):
    """A forward pass that leaves the running statistics as they were."""
    global nearest
    nearest = math.inf
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad():
        losses_of(model, batch)
        for name, buffer in model.named_buffers():
            buffer.copy_(kept[name])
    return nearest


class Chooser:
    """Takes for each step the first seed whose batch is far from all kinks."""

    def __init__(self, program, case):
        self.program, self.case, self.drawn, self.seeds, self.nearest = program, case, {}, [], math.inf
        self.start = self.draw(1)

    def draw(self, seed):
        start, self.drawn[seed] = dump(self.program, self.case, seed)
        return start

    def __call__(self, step, model):
        for seed in range(1, 10000):
            if seed not in self.drawn:
                self.draw(seed)
            distance = distance_to_kinks(model, self.drawn[seed][step])
            if distance >= MARGIN:
                break
        self.seeds.append(seed)
        self.nearest = min(self.nearest, distance)
        return self.drawn[seed][step]

    def batch(self, step):
        return self.drawn[self.seeds[step]][step]


def spread_of(case, chosen, losses):
    """How far slightly disturbed float32 runs stray from these losses, relatively."""
    def narrow(step, _):
        return {name: x.float() if x.is_floating_point() else x for name, x in chosen.batch(step).items()}

    spread = 0.0
    for nudge in range(NUDGES):
        torch.manual_seed(nudge)
        near = {name: x * (1 + NUDGE * torch.randn(x.shape)) for name, x in chosen.start.items()}
        other, _, _ = train(case, prepared(case, near, chosen.batch(0)).float(), narrow)
        spread = max([spread] + [abs(b / a - 1) for old, new in zip(losses, other) for a, b in zip(old, new)])
    return spread


def thinned(case, table):
    return {name: row for i, (name, row) in enumerate(table.items()) if i % EVERY.get(case, 1) == 0}


def golden(program, case):
    chosen = Chooser(program, case)
    model = prepared(case, chosen.start, chosen.drawn[1][0])
    losses, gradients, buffers = train(case, model, chosen)
    spread = spread_of(case, chosen, losses)
    weights = math.sqrt(sum((p * p).sum().item() for p in chosen.start.values()))
    print(f"{case}: {chosen.nearest:.2g} from the nearest kink, float32 strays {spread:.2g}, "
          f"loss {sum(losses[0]):.6f} to {sum(losses[-1]):.6f}, seeds {chosen.seeds}", flush=True)
    if spread > SMOOTH:
        sys.exit(f"{case}: float32 strays further than {SMOOTH}: not a case to hold float32 kernels to")
    return {"model": case, "every": EVERY.get(case, 1), "seeds": chosen.seeds, "weight_norm": number(weights), "losses": losses,
            "gradients": thinned(case, gradients), "buffers": thinned(case, buffers)}


def logits_of(program, case):
    """What an untrained network says of one batch in evaluation, running statistics 0 and 1."""
    start, batches = dump(program, case, 1)
    model = prepared(case, start, batches[0]).eval()
    with torch.no_grad():
        return [[number(x) for x in row] for row in model(batches[0]["image"])]


def write_logits(path, program):
    with open(path, "w") as file:
        rows = ",\n".join(f"{json.dumps(case)}: {json.dumps(logits_of(program, case))}" for case in LOGITS)
        file.write(f"{{{rows}}}\n")


def write(path, content):
    """One line a tensor, so that a change shows as a short difference."""
    def rows(table):
        return ",\n".join(f'  {json.dumps(name)}: {json.dumps(row)}' for name, row in table.items())

    head = ",\n".join(f'"{key}": {json.dumps(content[key])}' for key in ("model", "every", "seeds", "weight_norm", "losses"))
    with open(path, "w") as file:
        file.write(f'{{{head},\n"gradients": {{\n{rows(content["gradients"])}\n}},\n'
                   f'"buffers": {{\n{rows(content["buffers"])}\n}}}}\n')


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, folder = sys.argv[1:3]
    cases = sys.argv[3:] or ["logits", "mlp", "lenet", "resnet8", "resnet20", "resnet18-cifar", "vit-micro", "vit-tiny", "bert-tiny",
                             "gpt2-nano"]
    if "logits" in cases:
        write_logits(os.path.join(folder, "logits.json"), program)
    for case in (case for case in cases if case != "logits"):
        write(os.path.join(folder, f"{case}.json"), golden(program, case))


main()
