#!/usr/bin/env python3
"""One rank of PyTorch over gloo: a pipeline (torch.distributed.pipelining) or sharded data parallel training. bench_pipes.py
starts one process a rank, with the job as JSON; rank 0 prints the times of the measured steps in ms and what it ran on.

Channels-last: parameters and images of data parallel ranks are kept so. FSDP2 shards only plain parameters, so its images alone
are; stages of a pipeline keep their parameters so and change what crosses a cut, which travels plain.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402


class Relayout(torch.autograd.Function):
    """A tensor in another layout; its gradient in the layout from before."""

    @staticmethod
    def forward(ctx, x, into, back):
        ctx.back = back
        return x.contiguous(memory_format=into)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous(memory_format=ctx.back), None, None


def relayout(x, into, back):
    return Relayout.apply(x, into, back) if x.dim() == 4 else x


class ChannelsLast(nn.Module):
    """A stage that computes in channels-last; what crosses its cuts, both ways, is plain."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = self.stage(relayout(x, torch.channels_last, torch.contiguous_format))
        return relayout(x, torch.contiguous_format, torch.channels_last)


# --- pipelines ---


def layer_flops(layers, images):
    """Of forward and backward of each layer."""
    from torch.utils.flop_counter import FlopCounterMode

    flops, x = [], images
    for layer in layers:
        with FlopCounterMode(display=False) as counter:
            y = layer(x)
            y.sum().backward()
        flops.append(counter.get_total_flops())
        x = y.detach().requires_grad_()
    for layer in layers:
        layer.zero_grad()
    return flops


def balanced_cut(costs, count):
    """Bounds of `count` runs of neighbours whose dearest is as cheap as can be, none of them empty."""
    best = {(0, 0): (0, [0])}
    for part in range(1, count + 1):
        for end in range(part, len(costs) + 1):
            choices = [(max(best[part - 1, begin][0], sum(costs[begin:end])), best[part - 1, begin][1] + [end])
                       for begin in range(part - 1, end) if (part - 1, begin) in best]
            best[part, end] = min(choices)
    return best[count, len(costs)][1]


def bounds_of(job, layers, count):
    if job["cut"] == "flops":
        return balanced_cut(layer_flops(layers, torch.randn(2, 3, 32, 32)), count)
    return [len(layers) * i // count for i in range(count + 1)]


def pipeline(job, make_model, make_optimizer, images, labels):
    import torch.distributed.pipelining as pipelining

    rank, ranks, chunks = job["rank"], job["ranks"], job["chunks"]
    layers = models.layers_of(make_model(job["classes"]).train(), job["model"])
    count = ranks * chunks
    bounds = bounds_of(job, layers, count)
    own = [s for s in range(count) if s % ranks == rank]
    parts = [nn.Sequential(*layers[bounds[s]:bounds[s + 1]]) for s in own]
    if job["variant"] == "channels-last":
        parts = [ChannelsLast(part) for part in parts]
    stages = [pipelining.PipelineStage(part, s, count, torch.device("cpu")) for part, s in zip(parts, own)]
    make_schedule = getattr(pipelining, job["kind"])
    schedule = make_schedule(stages if chunks > 1 else stages[0], job["micros"], loss_fn=F.cross_entropy)
    optimizers = [make_optimizer(part, None) for part in parts]

    def step():
        for optimizer in optimizers:
            optimizer.zero_grad()
        given = (images,) if rank == 0 else ()
        schedule.step(*given, **({"target": labels} if own[-1] == count - 1 else {}))
        for optimizer in optimizers:
            optimizer.step()

    return step, bounds


# --- data parallel, sharded ---


def zero_redundancy(job, make_model, make_optimizer):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = make_model(job["classes"]).train()
    if job["variant"] == "channels-last":
        model = model.to(memory_format=torch.channels_last)
    model = nn.parallel.DistributedDataParallel(model)
    plain = make_optimizer(model, None)
    settings = {key: plain.defaults[key] for key in ("lr", "momentum", "weight_decay") if key in plain.defaults}
    return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=type(plain), **settings)


def fully_sharded(job, make_model, make_optimizer):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make_model(job["classes"]).train()
    options = {"mesh": init_device_mesh("cpu", (job["ranks"],)), "reshard_after_forward": job["kind"] == "FSDP2 resharding"}
    for block in models.blocks_of(model, job["model"]):
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model, make_optimizer(model, None)


def data_parallel(job, make_model, make_optimizer, images, labels):
    make = zero_redundancy if job["kind"] == "ZeroRedundancyOptimizer" else fully_sharded
    model, optimizer = make(job, make_model, make_optimizer)
    images, labels = images[job["rank"]::job["ranks"]].contiguous(), labels[job["rank"]::job["ranks"]].contiguous()
    if job["variant"] == "channels-last":
        images = images.contiguous(memory_format=torch.channels_last)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step, []


def main():
    job = json.loads(sys.argv[1])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{job['port']}", rank=job["rank"], world_size=job["ranks"])
    make_model, make_optimizer, _ = models.CASES[job["model"]]
    images, labels = torch.randn(job["batch"], 3, 32, 32), torch.randint(job["classes"], (job["batch"],))
    prepare = pipeline if job["chunks"] else data_parallel
    step, bounds = prepare(job, make_model, make_optimizer, images, labels)
    times = []
    for _ in range(job["warmup"] + job["steps"]):
        dist.barrier()
        begin = time.perf_counter()
        step()
        dist.barrier()
        times.append((time.perf_counter() - begin) * 1e3)
    if job["rank"] == 0:
        print(json.dumps({"step_ms": times[job["warmup"]:], "bounds": bounds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
