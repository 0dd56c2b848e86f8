#!/usr/bin/env python3
"""Models of torchvision, timm and transformers, with random weights saved as their users save them, computed by both sides.

    check_models.py RUN_DIR [CASE...]      ($B is the build folder; RUN_DIR is not read)

From the same weights and the same batch: losses and logits (in training and in evaluation) within 1e-4 of PyTorch's. For the
cases of a judge (GRADIENTS) also the gradient of every parameter: its error against PyTorch in float64, as a relative L2 norm,
is at most 1e-4 or twice that of PyTorch's own float32, with direct convolutions; with those that Stretto chooses by itself it
is printed. A gradient that is nothing but rounding (of a bias that a softmax or a norm cancels) is held against the norm of
all gradients instead.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
import torchvision
import transformers
from safetensors.torch import load_file, save_file, save_model

try:
    import timm
except ImportError:  # tests/gpu/check_torch.py takes what else is here
    timm = None

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
STEP = pathlib.Path(os.environ.get("B", "build")) / "torch-step"
CLOSE, NOISE = 1e-4, 1e-6
failures = 0


def check(good, what, detail=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} - {what}" + (f": {detail}" if detail and not good else ""), flush=True)


# --- one side and the other ----------------------------------------------------------------------------------------
def ours(options, weights, inputs, folder, direct=True):
    save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, folder / "in.safetensors")
    line = f"{options} --weights {weights} --dropout 0 --micro-batches 1 --steps 1 --out {folder}/out"
    line += f" --batch {len(next(iter(inputs.values())))}"
    if "resnet" in options or "pyramidnet" in options:  # those with 3x3 convolutions
        line += f" --conv {'direct' if direct else 'auto'}"
    done = subprocess.run([STEP, line, folder / "in.safetensors", folder / "out.safetensors"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{line}\n{done.stderr}")
    return load_file(folder / "out.safetensors"), done.stderr


def losses_of(terms):
    return [F.cross_entropy(logits.flatten(0, -2), labels.flatten().long(), ignore_index=-100) for logits, labels in terms]


def theirs(model, run, inputs, dtype, gradients):
    """{name: tensor} as step.c writes it; run(model, inputs) gives [(logits, labels)]."""
    model = model.to(dtype)
    inputs = {name: x.to(dtype) if x.is_floating_point() else x.long() for name, x in inputs.items()}
    kept, out = {name: x.clone() for name, x in model.named_buffers()}, {}
    for phase in ("eval", "train"):
        model.train(phase == "train").zero_grad()
        with torch.set_grad_enabled(phase == "train" and gradients):
            terms = run(model, inputs)
            losses = losses_of(terms)
        for k, (logits, _) in enumerate(terms):
            out[f"{phase}.logits.{k}"], out[f"{phase}.loss.{k}"] = logits.detach(), losses[k].detach()
    if gradients:
        sum(losses).backward()
        out.update({f"grad.{name}": p.grad.clone() for name, p in model.named_parameters()})
    model.load_state_dict(kept, strict=False)
    model.float()
    return out


# --- models: (torch's, options, inputs, how it runs) ---------------------------------------------------------------
def images(batch, side, classes=1000):
    return {"image": torch.randn(batch, 3, side, side), "label": torch.randint(classes, (batch,), dtype=torch.int32)}


def image_options(name, side, classes=1000):
    return f"--model {name} --data synthetic:size={side},channels=3,classes={classes},count=8,test_count=2"


def run_images(model, inputs):
    out = model(inputs["image"])
    return [(getattr(out, "logits", out), inputs["label"])]


def resnet(name, batch, side):
    model = getattr(torchvision.models, name)(weights=None)
    model(torch.randn(8, 3, 64, 64))  # running statistics of a network in use
    return model, image_options(name, side), images(batch, side), run_images


def vit(name, batch, side=224, **sizes):
    model = timm.create_model(name, pretrained=False, **sizes)
    ours_name = name.replace("_patch16_224", "").replace("_", "-")
    return model, image_options(ours_name, side) + " --patch 16", images(batch, side), run_images


def vit_small_hf():
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_labels=1000))
    return model, image_options("vit-small", 224) + " --layer-norm-eps 1e-12", images(1, 224), lambda model, inputs: [
        (model(inputs["image"]).logits, inputs["label"])]


def vit_small_torchvision():
    model = torchvision.models.VisionTransformer(224, 16, 12, 6, 384, 1536)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model, image_options("vit-small", 224), images(1, 224), run_images


def bert(**sizes):
    config = transformers.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0, **sizes)
    batch, tokens, masked, words = 4, 128, 20, config.vocab_size
    lengths = torch.tensor([128, 100, 77, 41])
    places = torch.arange(tokens)[None]
    ids = torch.randint(1, words, (batch, tokens), dtype=torch.int32)
    ids[places >= lengths[:, None]] = 0
    positions = torch.stack([torch.randperm(int(n))[:masked].sort().values for n in lengths]).int()
    labels = torch.randint(words, (batch, masked), dtype=torch.int32)
    labels[:, 15:] = -100
    inputs = {"input_ids": ids, "input_mask": (places < lengths[:, None]).int(),
              "segment_ids": ((places >= lengths[:, None] // 2) & (places < lengths[:, None])).int(),
              "masked_positions": positions, "masked_labels": labels,
              "next_sentence": torch.randint(2, (batch,), dtype=torch.int32)}

    def run(model, inputs):
        out = model(input_ids=inputs["input_ids"], attention_mask=inputs["input_mask"], token_type_ids=inputs["segment_ids"])
        rows = inputs["masked_positions"][:, :, None].expand(-1, -1, words)
        return [(out.prediction_logits.gather(1, rows), inputs["masked_labels"]),
                (out.seq_relationship_logits, inputs["next_sentence"])]

    name = "bert-tiny" if sizes else "bert-base"
    return (transformers.BertForPreTraining(config),
            f"--model {name} --data synthetic:kind=tokens,seq={tokens},predictions={masked},vocab={words},count=8,test_count=4",
            inputs, run)


def gpt2(name="gpt2", **sizes):
    config = transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0, **sizes)
    text = torch.randint(config.vocab_size, (2, 129), dtype=torch.int32)
    inputs = {"input_ids": text[:, :-1], "next_ids": text[:, 1:]}
    return (transformers.GPT2LMHeadModel(config),
            f"--model {name} --data synthetic:kind=text,seq=128,vocab={config.vocab_size},count=8,test_count=4",
            inputs, lambda model, inputs: [(model(inputs["input_ids"]).logits, inputs["next_ids"])])


# --- ways to save --------------------------------------------------------------------------------------------------
def state_dict(model, folder):
    save_file(model.state_dict(), folder / "weights.safetensors")
    return folder / "weights.safetensors"


def pretrained(model, folder):
    model.save_pretrained(folder / "hf")
    return folder / "hf"


def in_parts(model, folder):
    model.save_pretrained(folder / "hf", max_shard_size="100MB")
    assert (folder / "hf" / "model.safetensors.index.json").exists()
    return folder / "hf"


def without_prefix(model, folder):
    save_file(model.transformer.state_dict(), folder / "weights.safetensors")
    return folder / "weights.safetensors"


def once(model, folder):
    save_model(model, folder / "weights.safetensors")
    return folder / "weights.safetensors"


def halves(model, folder):
    save_file({name: x.half() if x.is_floating_point() else x for name, x in model.state_dict().items()},
              folder / "weights.safetensors")
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    return folder / "weights.safetensors"


def jax(model, folder):
    """The names of a JAX file; timm reads it back, so that both sides have their weights from it."""
    heads, arrays = model.blocks[0].attn.num_heads, {}

    def put(name, tensor):
        arrays[name] = tensor.detach().numpy()

    def norm(name, layer):
        put(name + "/scale", layer.weight), put(name + "/bias", layer.bias)

    def linear(name, weight, bias, inputs=None, outputs=None):
        weight = weight.T
        put(name + "/kernel", weight.reshape(*(inputs or weight.shape[:1]), *(outputs or weight.shape[1:])))
        put(name + "/bias", bias.reshape(outputs) if outputs else bias)

    put("cls", model.cls_token), put("Transformer/posembed_input/pos_embedding", model.pos_embed)
    put("embedding/kernel", model.patch_embed.proj.weight.permute(2, 3, 1, 0)), put("embedding/bias", model.patch_embed.proj.bias)
    for i, block in enumerate(model.blocks):
        name = f"Transformer/encoderblock_{i}/"
        attention, parts = name + "MultiHeadDotProductAttention_1/", (heads, model.embed_dim // heads)
        norm(name + "LayerNorm_0", block.norm1), norm(name + "LayerNorm_2", block.norm2)
        for word, weight, bias in zip(("query", "key", "value"), block.attn.qkv.weight.chunk(3), block.attn.qkv.bias.chunk(3)):
            linear(attention + word, weight, bias, outputs=parts)
        linear(attention + "out", block.attn.proj.weight, block.attn.proj.bias, inputs=parts)
        linear(name + "MlpBlock_3/Dense_0", block.mlp.fc1.weight, block.mlp.fc1.bias)
        linear(name + "MlpBlock_3/Dense_1", block.mlp.fc2.weight, block.mlp.fc2.bias)
    norm("Transformer/encoder_norm", model.norm), linear("head", model.head.weight, model.head.bias)
    path = folder / "weights.npz"
    numpy.savez(path, **arrays)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    model.load_pretrained(str(path))
    return path


def other_grid(model, folder):
    """Saved at 224x224; the model is then timm's for 96x96 images, its positions resized by timm."""
    path = state_dict(model, folder)
    model.set_input_size((96, 96))
    return path


CASES = {
    "resnet50": (lambda: resnet("resnet50", 4, 224), state_dict, True),
    "vit-base": (lambda: vit("vit_base_patch16_224", 2), state_dict, True),
    "bert-base": (bert, in_parts, True),
    "gpt2": (gpt2, pretrained, True),
    "resnet18": (lambda: resnet("resnet18", 2, 96), state_dict, False),
    "resnet34": (lambda: resnet("resnet34", 2, 96), halves, False),
    "resnet101": (lambda: resnet("resnet101", 2, 96), state_dict, False),
    "resnet152": (lambda: resnet("resnet152", 2, 96), state_dict, False),
    "vit-small": (lambda: vit("vit_small_patch16_224", 1), state_dict, False),
    "vit-small, other grid": (lambda: vit("vit_small_patch16_224", 1, 96, dynamic_img_size=False), other_grid, False),
    "vit-small, JAX": (lambda: vit("vit_small_patch16_224", 1), jax, False),
    "vit-small, transformers": (vit_small_hf, pretrained, False),
    "vit-small, torchvision": (vit_small_torchvision, state_dict, False),
    "bert-tiny, state dict": (lambda: bert(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512),
                              once, False),
    "gpt2-nano, no prefix": (lambda: gpt2("gpt2-nano", n_embd=128, n_layer=4, n_head=4, vocab_size=500), without_prefix, False),
    "gpt2-nano, saved once": (lambda: gpt2("gpt2-nano", n_embd=128, n_layer=4, n_head=4, vocab_size=500), once, False),
}


# --- what is compared ----------------------------------------------------------------------------------------------
def furthest(a, b):
    return (a.double() - b.double().reshape(a.shape)).abs().max().item()


def check_values(case, have, want, exactly):
    """Where float32 itself strays further than CLOSE (batch norm of 150 layers), twice PyTorch's own error is allowed."""
    for name in (name for name in want if not name.startswith("grad.")):
        error, allowed, against = furthest(have[name], want[name]), CLOSE * max(1.0, want[name].abs().max().item()), "PyTorch's"
        if error > allowed:
            exact = exactly()
            error, allowed = furthest(have[name], exact[name]), 2 * furthest(want[name], exact[name])
            against = f"float64's, twice PyTorch's own is {allowed:.1e}"
        check(error <= allowed, f"{case}: {name} within {error:.1e} of {against}", f"allowed {allowed:.1e}")


def errors_of(have, exact):
    """{parameter: relative L2 error}, of rounding noise relative to all gradients."""
    norms = {name: x.norm().item() for name, x in exact.items() if name.startswith("grad.")}
    total = sum(norm * norm for norm in norms.values()) ** 0.5
    return {name: (have[name].double() - exact[name]).norm().item() / (norm if norm > NOISE * total else total)
            for name, norm in norms.items()}


def worst(errors):
    name = max(errors, key=errors.get)
    middle = sorted(errors.values())[len(errors) // 2]
    return f"{errors[name]:.1e} ({name.removeprefix('grad.')}), median {middle:.1e}"


def check_gradients(case, have, single, exact):
    mine, other = errors_of(have, exact), errors_of(single, exact)
    bad = {name: error for name, error in mine.items() if error > max(CLOSE, 2 * other[name])}
    check(not bad, f"{case}: {len(mine)} gradients, worst error {worst(mine)}; PyTorch's {worst(other)}",
          ", ".join(f"{name} {error:.1e}, PyTorch {other[name]:.1e}" for name, error in list(bad.items())[:5]))


def check_case(case):
    make, save, judged = CASES[case]
    torch.manual_seed(len(case))
    model, options, inputs, run = make()
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = pathlib.Path(name)
        weights = save(model, folder)
        have, said = ours(options, weights, inputs, folder)
        auto = ours(options, weights, inputs, folder, direct=False)[0] if judged and "image" in inputs else None
    check("warning" not in said and "tensors loaded" in said, f"{case}: every tensor is found", said)
    want = theirs(model, run, inputs, torch.float32, judged)
    exact = theirs(model, run, inputs, torch.float64, True) if judged else None
    check_values(case, have, want, lambda: exact or theirs(model, run, inputs, torch.float64, False))
    if not judged:
        return
    check_gradients(case, have, want, exact)
    if auto:
        print(f"# {case}: with --conv auto the worst error is {worst(errors_of(auto, exact))}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for case in sys.argv[2:] or CASES:
        check_case(case)
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
