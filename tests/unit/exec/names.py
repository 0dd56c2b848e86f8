"""Makes names.def: what other programs call the tensors of our models, with their types and shapes.

    python tests/unit/exec/names.py > tests/unit/exec/names.def      (needs torch, torchvision, timm, transformers)

Each list is of a model of one block, made by the program itself and saved as its users would; the number of the block is
written as "#". Only the names of the JAX files, whose program nobody installs for this, are written down here.
"""
import os
import re
import sys
import tempfile

import timm
import torch
import torchvision
import transformers
from safetensors import safe_open
from safetensors.torch import save_file, save_model

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
WIDTH, HEADS, HIDDEN, CLASSES, PATCH, SIDE = 64, 4, 128, 10, 2, 8
WORDS = 200


def written(write):
    """[(name, type, shape)] of the file that a function writes into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        path = os.path.join(folder, "model.safetensors")
        with safe_open(path, "pt") as file:
            return [(name, file.get_slice(name).get_dtype(), file.get_slice(name).get_shape()) for name in sorted(file.keys())]


def saved(model):
    return written(model.save_pretrained)


def state(model, prefix=""):
    tensors = {prefix + name: tensor.clone() for name, tensor in model.state_dict().items()}
    return written(lambda folder: save_file(tensors, os.path.join(folder, "model.safetensors")))


def saved_once(model):
    return written(lambda folder: save_model(model, os.path.join(folder, "model.safetensors")))


def vit_timm():
    return timm.models.vision_transformer.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, in_chans=1, num_classes=CLASSES, embed_dim=WIDTH, depth=1, num_heads=HEADS, mlp_ratio=2)


def vit_torchvision():
    model = torchvision.models.VisionTransformer(SIDE, PATCH, 1, HEADS, WIDTH, HIDDEN, num_classes=CLASSES)
    model.conv_proj = torch.nn.Conv2d(1, WIDTH, PATCH, PATCH)
    return model


def vit_config():
    return transformers.ViTConfig(hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=HEADS, intermediate_size=HIDDEN,
                                  image_size=SIDE, patch_size=PATCH, num_channels=1, num_labels=CLASSES)


def vit_jax():
    each, block = WIDTH // HEADS, "Transformer/encoderblock_0/"
    attention = block + "MultiHeadDotProductAttention_1/"
    shapes = {"cls": [1, 1, WIDTH], "embedding/kernel": [PATCH, PATCH, 1, WIDTH], "embedding/bias": [WIDTH],
              "Transformer/posembed_input/pos_embedding": [1, 1 + (SIDE // PATCH) ** 2, WIDTH],
              attention + "out/kernel": [HEADS, each, WIDTH], attention + "out/bias": [WIDTH],
              block + "MlpBlock_3/Dense_0/kernel": [WIDTH, HIDDEN], block + "MlpBlock_3/Dense_0/bias": [HIDDEN],
              block + "MlpBlock_3/Dense_1/kernel": [HIDDEN, WIDTH], block + "MlpBlock_3/Dense_1/bias": [WIDTH],
              "head/kernel": [WIDTH, CLASSES], "head/bias": [CLASSES]}
    for name in ("query", "key", "value"):
        shapes[f"{attention}{name}/kernel"] = [WIDTH, HEADS, each]
        shapes[f"{attention}{name}/bias"] = [HEADS, each]
    for norm in (block + "LayerNorm_0", block + "LayerNorm_2", "Transformer/encoder_norm"):
        shapes[norm + "/scale"] = shapes[norm + "/bias"] = [WIDTH]
    return [(name, "F32", shape) for name, shape in shapes.items()]


def bert_config():
    return transformers.BertConfig(hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
                                   vocab_size=WORDS)


def bert_old():
    """As the files of the first years: other names in norms, a constant, and the decoder a second time."""
    def old(name):
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    rows = [(old(name), kind, shape) for name, kind, shape in state(transformers.BertForPreTraining(bert_config()))]
    return rows + [("bert.embeddings.position_ids", "I64", [1, 512])]


def gpt2_config():
    return transformers.GPT2Config(n_embd=128, n_layer=1, n_head=4, vocab_size=WORDS, bos_token_id=0, eos_token_id=0)


def gpt2_old():
    """As the first file of gpt2: no prefix, and the mask of each block, of less tokens here."""
    rows = state(transformers.GPT2Model(gpt2_config()))
    return rows + [("h.0.attn.bias", "F32", [1, 1, 8, 8])]


LISTS = {
    "vit timm": lambda: state(vit_timm()),
    "vit torchvision": lambda: state(vit_torchvision()),
    "vit transformers": lambda: saved(transformers.ViTForImageClassification(vit_config())),
    "vit transformers modules": lambda: state(transformers.ViTForImageClassification(vit_config())),
    "vit transformers headless": lambda: saved(transformers.ViTModel(vit_config())),
    "vit jax": vit_jax,
    "bert transformers": lambda: saved(transformers.BertForPreTraining(bert_config())),
    "bert ddp": lambda: state(transformers.BertForPreTraining(bert_config()), "module."),
    "bert headless": lambda: saved(transformers.BertModel(bert_config())),
    "bert old": bert_old,
    "gpt2 transformers": lambda: saved(transformers.GPT2LMHeadModel(gpt2_config())),
    "gpt2 safetensors": lambda: saved_once(transformers.GPT2LMHeadModel(gpt2_config())),
    "gpt2 compiled": lambda: state(transformers.GPT2LMHeadModel(gpt2_config()), "_orig_mod."),
    "gpt2 old": gpt2_old,
}


def main():
    print("/* Made by names.py: a list, the name of a tensor (# is the number of a block), its type and shape. */")
    for title, rows in ((title, make()) for title, make in LISTS.items()):
        for name, kind, shape in rows:
            name = re.sub(r"\b(blocks|layers?|h)\.0\.|(encoder_layer_|encoderblock_)0",
                          lambda m: f"{m[1]}.#." if m[1] else f"{m[2]}#", name)
            dims = ", ".join(str(d) for d in shape)
            print(f'TENSOR("{title}", "{name}", {kind}, SHAPE({dims}))')


main()
