#!/usr/bin/env python3
"""resnet50, vit-base, bert-base and gpt2 on a GPU, from weights that PyTorch initialised, beside PyTorch on the same GPU.

    check_torch.py [CASE...]      ($B is the build folder, which has torch-step)

In f32: losses and logits within 1e-4 of PyTorch's, and the gradient of every parameter, against PyTorch in float64, within 1e-4
or twice PyTorch's own error. In tf32, bf16 and f16: logits, losses and gradients are at most 1.5 times as far from PyTorch's f32
as PyTorch's own run in that type. A distance is the norm of the difference over the norm. The errors of a loss, a mean, may
cancel by luck: a tenth of the distance of PyTorch's logits is allowed to both.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "torch"))
import check_models as both
import torch
import torchvision
from safetensors.torch import load_file, save_file

TYPES = {"tf32": None, "bf16": torch.bfloat16, "f16": torch.float16}
FARTHER = 1.5


def vit_base():
    model = torchvision.models.VisionTransformer(224, 16, 12, 12, 768, 3072)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model, both.image_options("vit-base", 224) + " --patch 16", both.images(8, 224), both.run_images


def timm_name(name):
    for theirs, ours in (("conv_proj", "patch_embed.proj"), ("class_token", "cls_token"), ("encoder.pos_embedding", "pos_embed"),
                         ("encoder.layers.encoder_layer_", "blocks."), ("ln_1", "norm1"), ("ln_2", "norm2"),
                         ("self_attention.in_proj_", "attn.qkv."), ("self_attention.out_proj", "attn.proj"),
                         ("mlp.0", "mlp.fc1"), ("mlp.3", "mlp.fc2"), ("encoder.ln", "norm"), ("heads.head", "head")):
        name = name.replace(theirs, ours)
    return name


CASES = {
    "resnet50": (lambda: both.resnet("resnet50", 16, 224), both.state_dict, str),
    "vit-base": (vit_base, both.state_dict, timm_name),
    "bert-base": (both.bert, both.pretrained, str),
    "gpt2": (both.gpt2, both.pretrained, str),
}


def ours(options, weights, inputs, folder, dtype):
    save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, folder / "in.safetensors")
    line = f"{options} --weights {weights} --dropout 0 --micro-batches 1 --steps 1 --out {folder}/out"
    line += f" --batch {len(next(iter(inputs.values())))}"
    done = subprocess.run([both.STEP, line, folder / "in.safetensors", folder / "out.safetensors", "cuda", dtype],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{line}\n{done.stderr}")
    return load_file(folder / "out.safetensors", device="cuda")


def theirs(model, run, inputs, dtype, rename):
    """{name: tensor} as step.c writes it, by PyTorch in this type."""
    tf32 = dtype == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    wide = torch.float64 if dtype == "f64" else torch.float32
    model = model.cuda().to(wide)
    inputs = {name: (x.to(wide) if x.is_floating_point() else x.long()).cuda() for name, x in inputs.items()}
    if "image" in inputs:
        model, inputs["image"] = model.to(memory_format=torch.channels_last), inputs["image"].contiguous(memory_format=torch.channels_last)
    kept, out = {name: x.clone() for name, x in model.named_buffers()}, {}
    for phase in ("eval", "train"):
        model.train(phase == "train").zero_grad()
        with torch.set_grad_enabled(phase == "train"), torch.autocast("cuda", TYPES.get(dtype) or torch.bfloat16,
                                                                       enabled=TYPES.get(dtype) is not None):
            terms = run(model, inputs)
            losses = both.losses_of([(logits.float() if wide is torch.float32 else logits, labels) for logits, labels in terms])
        for k, (logits, _) in enumerate(terms):
            out[f"{phase}.logits.{k}"], out[f"{phase}.loss.{k}"] = logits.detach(), losses[k].detach()
    sum(losses).backward()
    out.update({f"grad.{rename(name)}": p.grad.clone() for name, p in model.named_parameters()})
    model.load_state_dict(kept, strict=False)
    return out


def distance(have, want, names):
    difference = sum(((have[n].double().reshape(want[n].shape) - want[n].double()) ** 2).sum() for n in names)
    return (difference / sum((want[n].double() ** 2).sum() for n in names)).sqrt().item()


def groups(want):
    return {"logits": [n for n in want if ".logits." in n], "losses": [n for n in want if ".loss." in n],
            "gradients": [n for n in want if n.startswith("grad.")]}


def check_case(case):
    make, save, rename = CASES[case]
    torch.manual_seed(len(case))
    model, options, inputs, run = make()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = save(model, folder)
        mine = {dtype: ours(options, weights, inputs, folder, dtype) for dtype in ("f32", *TYPES)}
    single, exact = (theirs(model, run, inputs, dtype, rename) for dtype in ("f32", "f64"))
    both.check_values(f"{case}, f32", mine["f32"], single, lambda: exact)
    both.check_gradients(f"{case}, f32", mine["f32"], single, exact)
    for dtype in TYPES:
        other = theirs(model, run, inputs, dtype, rename)
        for what, names in groups(single).items():
            own = distance(other, single, names)
            if what == "losses":
                own = max(own, distance(other, single, groups(single)["logits"]) / 10)
            have, allowed = distance(mine[dtype], single, names), FARTHER * own
            both.check(have <= max(allowed, 1e-5), f"{case}, {dtype}: {what} {have:.2e} from PyTorch's f32, PyTorch's own {allowed / FARTHER:.2e}")


def main():
    if not torch.cuda.is_available():
        print("1..0 # SKIP PyTorch sees no GPU")
        return
    for case in sys.argv[1:] or CASES:
        check_case(case)
    print(f"# {both.failures} failed")
    sys.exit(both.failures > 0)


if __name__ == "__main__":
    main()
