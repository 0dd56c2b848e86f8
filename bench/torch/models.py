"""The networks of the comparisons, as PyTorch users write them, and one training step of each.

Layouts and names are torchvision's, timm's and Hugging Face's; they are written here because these packages are not
everywhere, and so that nothing but PyTorch itself is measured."""
import time

import torch
import torch.nn.functional as F
from torch import nn

import cases


class BasicBlock(nn.Module):
    """torchvision's layout and names."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """torchvision's: the stride is that of the 3x3 convolution."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        width = outputs // 4
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """For small images: a 3x3 stem with stride 1 and no max pool. `large`: torchvision's stem."""

    def __init__(self, widths, blocks, classes, block=BasicBlock, large=False, stem=64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 7, 2, 3, bias=False) if large else nn.Conv2d(3, stem, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        inputs, self.stages = stem, len(widths)
        for i, (width, count) in enumerate(zip(widths, blocks)):
            first = block(inputs, width, 2 if i else 1)
            self.add_module(f"layer{i + 1}", nn.Sequential(first, *[block(width, width, 1) for _ in range(count - 1)]))
            inputs = width
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def layers(self):
        return [getattr(self, f"layer{i + 1}") for i in range(self.stages)]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for layer in self.layers():
            x = layer(x)
        return self.fc(self.avgpool(x).flatten(1))


def resnet18_cifar(classes):
    return ResNet([64, 128, 256, 512], [2, 2, 2, 2], classes)


def resnet50(classes):
    return ResNet([256, 512, 1024, 2048], [3, 4, 6, 3], classes, Bottleneck, large=True)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """timm's layout: a class token, learned positions, the norm before each half of a block."""

    def __init__(self, size, patch, dim, heads, depth, classes):
        super().__init__()
        tokens = (size // patch) ** 2 + 1
        self.patch_embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, tokens, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class BertLayer(nn.Module):
    """The norm behind each half of a block, exact GELU."""

    def __init__(self, dim, heads, hidden, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.dense = (nn.Linear(dim, dim) for _ in range(4))
        self.norm1, self.norm2 = (nn.LayerNorm(dim, eps=1e-12) for _ in range(2))
        self.intermediate, self.output = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.drop = nn.Dropout(dropout)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        x = self.norm1(x + self.drop(self.dense(y.transpose(1, 2).reshape(x.shape))))
        return self.norm2(x + self.drop(self.output(F.gelu(self.intermediate(x)))))


class Bert(nn.Module):
    """Both pre-training heads; that of masked words runs on the masked positions alone, its decoder is tied."""

    def __init__(self, words, dim, heads, depth, hidden, dropout=0.1, positions=512):
        super().__init__()
        self.words, self.positions, self.segments = nn.Embedding(words, dim), nn.Embedding(positions, dim), nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList(BertLayer(dim, heads, hidden, dropout) for _ in range(depth))
        self.pooler, self.follows = nn.Linear(dim, dim), nn.Linear(dim, 2)
        self.transform, self.transform_norm = nn.Linear(dim, dim), nn.LayerNorm(dim, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(words))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, segments, mask, masked):
        x = self.words(ids) + self.segments(segments) + self.positions.weight[: ids.shape[1]]
        x = self.drop(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        follows = self.follows(torch.tanh(self.pooler(x[:, 0])))
        x = x.gather(1, masked[..., None].expand(-1, -1, x.shape[-1]))
        x = self.transform_norm(F.gelu(self.transform(x)))
        return F.linear(x, self.words.weight, self.bias), follows


def bert_base(_):
    return Bert(cases.WORDS, 768, 12, 12, 3072)


class CausalBlock(nn.Module):
    """GPT-2's: the norm before each half, tanh GELU."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.c_fc, self.mlp_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, words, dim, heads, depth, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, dim), nn.Embedding(positions, dim)
        self.blocks = nn.Sequential(*[CausalBlock(dim, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(dim)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)


def gpt2(_):
    return Gpt2(cases.LETTERS, 768, 12, 12, 1024)


def vit_base(classes):
    return VisionTransformer(size=224, patch=16, dim=768, heads=12, depth=12, classes=classes)


class Embedding(nn.Module):
    """What comes before the blocks of a VisionTransformer."""

    def __init__(self, of):
        super().__init__()
        self.patch_embed, self.cls_token, self.pos_embed = of.patch_embed, of.cls_token, of.pos_embed

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed


class Head(nn.Module):
    """What comes behind them."""

    def __init__(self, of):
        super().__init__()
        self.norm, self.head = of.norm, of.head

    def forward(self, x):
        return self.head(self.norm(x)[:, 0])


def blocks_of(model, name):
    """What is repeated in a network: the units that FSDP shards."""
    return list(model.blocks) if name == "vit-tiny" else [block for layer in model.layers() for block in layer]


def layers_of(model, name):
    """The network as modules one behind the other, for pipelines."""
    blocks = blocks_of(model, name)
    if name == "vit-tiny":
        return [Embedding(model), *blocks, Head(model)]
    stem = nn.Sequential(model.conv1, model.bn1, model.relu)
    return [stem, *blocks, nn.Sequential(model.avgpool, nn.Flatten(), model.fc)]


def vit_tiny(classes):
    return VisionTransformer(size=32, patch=4, dim=192, heads=3, depth=12, classes=classes)


def sgd(model, fused, foreach=None):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=fused, foreach=foreach)


def adamw(model, fused, foreach=None):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=fused, foreach=foreach)


# name: how PyTorch makes it, its optimizer, and Stretto's options for the same work
CASES = {
    "resnet18-cifar": (resnet18_cifar, sgd, cases.CASES["resnet18-cifar"].options),
    "vit-tiny": (vit_tiny, adamw, cases.CASES["vit-tiny"].options),
    "resnet50": (resnet50, sgd, cases.CASES["resnet50"].options),
    "bert-base": (bert_base, adamw, cases.CASES["bert-base"].options),
}


# of bench_gpu.py: how PyTorch makes it, its optimizer
GPU_CASES = {"resnet50": (resnet50, sgd), "resnet18-cifar": (resnet18_cifar, sgd), "vit-base": (vit_base, adamw),
             "bert-base": (bert_base, adamw), "gpt2": (gpt2, adamw)}


def classify(output, labels):
    return F.cross_entropy(output, labels)


def pretrain(output, labels):
    words, follows = output
    return F.cross_entropy(words.flatten(0, 1), labels[0].flatten()) + F.cross_entropy(follows, labels[1])


def batch_of(name, samples):
    """Inputs of a step, labels, and the loss of the outputs with these."""
    return batch_for(name, cases.CASES[name], samples)


def continue_text(output, labels):
    return F.cross_entropy(output.flatten(0, 1), labels.flatten())


def batch_for(network, case, samples):
    """The same for a network and a case of either table."""
    if network == "gpt2":
        text = torch.randint(cases.LETTERS, (samples, case.size + 1))
        return (text[:, :-1].contiguous(),), text[:, 1:].contiguous(), continue_text
    if network != "bert-base":
        return (torch.randn(samples, 3, case.size, case.size),), torch.randint(case.classes, (samples,)), classify
    ids = torch.randint(cases.WORDS, (samples, case.size))
    mask = torch.ones(samples, 1, 1, case.size, dtype=torch.bool)
    masked = torch.stack([torch.randperm(case.size)[: cases.MASKED] for _ in range(samples)])
    labels = (ids.gather(1, masked), torch.randint(2, (samples,)))
    return (ids, torch.zeros_like(ids), mask, masked), labels, pretrain


def times_of(run, optimizer, inputs, labels, loss, count, dtype="f32"):
    """Times of so many training steps, in ms. bf16 is PyTorch's autocast: parameters are f32 there too."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            value = loss(run(*inputs), labels)
        value.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def step_times(run, optimizer, images, labels, count):
    return times_of(run, optimizer, (images,), labels, classify, count)
