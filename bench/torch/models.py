"""The two networks of the comparison, as PyTorch users write them, and one training step of each."""
import time

import torch
import torch.nn.functional as F
from torch import nn


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


class ResNet(nn.Module):
    """For small images: a 3x3 stem with stride 1 and no max pool."""

    def __init__(self, widths, blocks, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        inputs, self.stages = widths[0], len(widths)
        for i, width in enumerate(widths):
            first = BasicBlock(inputs, width, 2 if i else 1)
            self.add_module(f"layer{i + 1}", nn.Sequential(first, *[BasicBlock(width, width, 1) for _ in range(blocks - 1)]))
            inputs = width
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def layers(self):
        return [getattr(self, f"layer{i + 1}") for i in range(self.stages)]

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        for layer in self.layers():
            x = layer(x)
        return self.fc(self.avgpool(x).flatten(1))


def resnet18_cifar(classes):
    return ResNet([64, 128, 256, 512], 2, classes)


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


def sgd(model, fused):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=fused)


def adamw(model, fused):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=fused)


# name: how PyTorch makes it, its optimizer, and Stretto's options for the same work
CASES = {
    "resnet18-cifar": (resnet18_cifar, sgd, ["--optimizer", "sgd", "--lr", "0.01"]),
    "vit-tiny": (vit_tiny, adamw, ["--optimizer", "adamw", "--patch", "4", "--clip", "0"]),
}


def step_times(run, optimizer, images, labels, count):
    """Times of so many training steps, in ms."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(run(images), labels).backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    return times
