#!/usr/bin/env python3
"""gpt2-nano learns a text as Hugging Face's GPT-2 does from the same weights.

    check_text.py RUN_DIR      ($B is the build folder; RUN_DIR is not read)

The text is this project's documentation, a token a byte. Both sides take the same batches, which PyTorch's own permutation
gives, AdamW with the same decay and clipping, and no dropout. The losses of the first 50 steps agree within 1%, and fall.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
STRETTO = str(pathlib.Path(os.environ.get("B", "build")) / "stretto")
STEPS, BATCH, TOKENS, SEED, RATE, DECAY, CLIP = 50, 8, 64, 3, 1e-3, 0.01, 1.0


def start():
    torch.manual_seed(1)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=128, n_layer=4, n_head=4, vocab_size=256, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0))


def train_ours(model, folder):
    model.save_pretrained(folder / "start")
    subprocess.run([STRETTO, "tokens", folder / "text.txt", folder / "tokens"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([STRETTO, "train", "--model", "gpt2-nano", "--data", f"tokens:{folder}/tokens", "--seq", str(TOKENS),
                    "--weights", folder / "start", "--dropout", "0", "--batch", str(BATCH), "--steps", str(STEPS),
                    "--optimizer", "adamw", "--lr", str(RATE), "--lr-policy", "const", "--warmup", "0", "--clip", str(CLIP),
                    "--weight-decay", str(DECAY), "--seed", str(SEED), "--log-every", "1", "--quiet", "--out", folder / "out"],
                   check=True)
    rows = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if row["kind"] == "train"]


def rows_of(text):
    """The rows of tokens that are trained on, each with one token more: nine tenths of the text."""
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    tokens = tokens[:len(tokens) - len(tokens) // 10]
    count = (len(tokens) - 1) // TOKENS
    return torch.stack([tokens[i * TOKENS:(i + 1) * TOKENS + 1] for i in range(count)])


def train_theirs(model, text):
    decayed = [p for name, p in model.named_parameters() if p.dim() > 1]
    others = [p for name, p in model.named_parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0}], lr=RATE)
    rows, losses = rows_of(text), []
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(SEED))
    assert len(rows) >= STEPS * BATCH, "the text is too short"
    for step in range(STEPS):
        batch = rows[order[step * BATCH:(step + 1) * BATCH]]
        loss = F.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    text = b"".join(path.read_bytes() for path in sorted(pathlib.Path("docs").glob("*.md")))
    model = start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_bytes(text)
        have = train_ours(model, folder)
    want = train_theirs(model.train(), text)
    assert len(have) == STEPS, f"{len(have)} losses"
    apart = [abs(a / b - 1) for a, b in zip(have, want)]
    good = max(apart) <= 0.01 and have[-1] < 0.8 * have[0]
    print(f"{'ok' if good else 'not ok'} - gpt2-nano: {STEPS} losses from {have[0]:.4f} to {have[-1]:.4f}, PyTorch's "
          f"{want[0]:.4f} to {want[-1]:.4f}; at most {max(apart):.1e} apart")
    sys.exit(not good)


if __name__ == "__main__":
    main()
