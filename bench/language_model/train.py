"""A small language model trained on the documentation that Debian's packages ship.

    PYTHON_WITH_TORCH bench/language_model/train.py build/language_model [--steps 600]

Needs torch, tokenizers and onnxscript. FOLDER keeps the tokens, the weights (weights.pt; a run that was stopped goes on
from them) and the exported models. One thread; products of the training are in bfloat16.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.language_model.corpus import VOCABULARY, tokens
from bench.language_model.network import WINDOW, Decoder, export

BATCH, RATE = 16, 2e-3


def rate(step: int, steps: int) -> float:
    """The learning rate: up over 100 steps, then down along a cosine to a twentieth."""
    share = min(max(step - 100, 0) / max(steps - 100, 1), 1.0)
    return RATE * min((step + 1) / 100, 0.05 + 0.95 * (1 + math.cos(math.pi * share)) / 2)


def batch(text: np.ndarray, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows at random offsets, and the tokens that follow each."""
    begins = np.random.default_rng(step).integers(0, len(text) - WINDOW - 1, BATCH)
    rows = torch.from_numpy(np.stack([text[b : b + WINDOW + 1] for b in begins]).astype(np.int64))
    return rows[:, :-1], rows[:, 1:]


def train(folder: Path, steps: int) -> Decoder:
    """The decoder after `steps`, from the weights kept in `folder`."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text, _ = tokens(folder)
    decoder = Decoder(VOCABULARY)
    optimizer = torch.optim.AdamW(decoder.parameters(), RATE, (0.9, 0.95), weight_decay=0.05)
    begin, path = 0, folder / "weights.pt"
    if path.exists():
        kept = torch.load(path)
        decoder.load_state_dict(kept["decoder"])
        optimizer.load_state_dict(kept["optimizer"])
        begin = kept["step"]
    clock = time.process_time()
    for step in range(begin, steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        given, wanted = batch(text, step)
        with torch.autocast("cpu", torch.bfloat16):
            logits, _ = decoder(given)
        loss = functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49 or step == steps - 1:
            seconds = time.process_time() - clock
            print(f"step {step + 1}: loss {loss.item():.3f}, {seconds:.0f} s of processor time", flush=True)
        if step % 200 == 199 or step == steps - 1:
            state = {"decoder": decoder.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, path)
    return decoder


@torch.no_grad()
def perplexity(decoder: Decoder, text: np.ndarray, windows: int) -> float:
    """exp of the mean loss over the first windows of `text`, in float32."""
    total = 0.0
    for number in range(windows):
        row = torch.from_numpy(text[number * WINDOW : (number + 1) * WINDOW + 1].astype(np.int64))
        total += functional.cross_entropy(decoder(row[None, :-1])[0][0], row[1:]).item()
    return math.exp(total / windows)


def main() -> None:
    """Train, export, and print the perplexity of text held out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--windows", type=int, default=100)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    decoder = train(args.folder, args.steps)
    export(decoder, args.folder)
    print(f"perplexity {perplexity(decoder, tokens(args.folder)[1], args.windows):.4f} over {args.windows} windows")


if __name__ == "__main__":
    main()
