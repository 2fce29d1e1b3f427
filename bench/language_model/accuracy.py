"""Perplexity of a small language model with weights of a few bits, and tokens beside exact arithmetic.

    PYTHON_WITH_TORCH bench/language_model/accuracy.py build/language_model [--windows 100] [--tokens 10000]

FOLDER is that of train.py. Perplexities are of text held out. Tokens, the largest logit at each position, are those of
compiled models and of onnxruntime at accuracy levels 0 and 4, beside the decoder in float64 with the weights that the
codes stand for: as trained, and with some channels of activations a hundred times as large and their weights as small.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tilewright as tw
from bench.language_model.corpus import VOCABULARY, tokens
from bench.language_model.network import WINDOW, Decoder, export
from tilewright.quantize.weight_recipe import digest

Array = np.ndarray[Any, Any]
Run = Callable[[Array], Array]
#: The model in which some channels stand out: how many of each tensor, and how far.
OUTLIERS, FACTOR = 8, 100.0
#: Windows of the text trained on that rounding is compensated after.
CALIBRATED = 48


def trained(folder: Path) -> Decoder:
    """The decoder with the weights of `folder`."""
    decoder = Decoder(VOCABULARY)
    decoder.load_state_dict(torch.load(folder / "weights.pt")["decoder"])
    return decoder.float().eval().requires_grad_(False)


def with_outliers(decoder: Decoder) -> Decoder:
    """The same function with some channels of what products read times 100, and the weights that meet them over 100."""
    made, rng = copy.deepcopy(decoder), np.random.default_rng(0)
    made.head = nn.Parameter(made.embedding.weight.clone(), requires_grad=False)

    def stand_out(source: torch.Tensor, *readers: torch.Tensor) -> None:
        chosen = torch.from_numpy(rng.choice(len(source), OUTLIERS, replace=False))
        source[chosen] *= FACTOR
        for weight in readers:
            weight[:, chosen] /= FACTOR

    for layer in made.layers:
        attention = layer.attention
        stand_out(
            layer.before_attention.weight, *(one.weight for one in (attention.query, attention.key, attention.value))
        )
        stand_out(layer.before_gate.weight, layer.gate.weight, layer.up.weight)
        stand_out(attention.value.weight, attention.out.weight)
        stand_out(layer.up.weight, layer.down.weight)
    stand_out(made.last.weight, made.head)
    return made


def exact_of(decoder: Decoder, found: Any) -> Run:
    """The decoder in float64 with the weights that the codes of `found`, a `QuantizedWeights`, stand for."""
    made = copy.deepcopy(decoder).double()
    choices = found.recipe.choices
    dense, table = (
        {choices[name].digest: one.floats() for name, one in found.coded.items() if choices[name].operator == kind}
        for kind in ("nn.dense", "take")
    )
    used = 0
    for was, module in zip(decoder.modules(), made.modules(), strict=True):
        if isinstance(was, nn.Linear) and (key := digest(was.weight.numpy())) in dense:
            module.weight.copy_(torch.from_numpy(dense[key]))
            used += 1
    head = digest((decoder.embedding.weight if decoder.head is None else decoder.head).numpy())
    if head in dense:
        made.head = nn.Parameter(torch.from_numpy(dense[head]).double(), requires_grad=False)
        used += 1
    if (key := digest(decoder.embedding.weight.numpy())) in table:
        made.embedding.weight.copy_(torch.from_numpy(table[key]))
        used += 1
    assert used == len(found.coded), "layers of the exported model are not those of the decoder"
    return in_torch(made)


def in_torch(decoder: Decoder) -> Run:
    """The decoder by PyTorch."""
    return lambda rows: decoder(torch.from_numpy(rows))[0].numpy()


def in_onnxruntime(model: onnx.ModelProto) -> Run:
    """A model by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(None, {"tokens": rows})[0]


def perplexity(run: Run, text: Array, windows: int) -> float:
    """exp of the mean loss over the first windows of `text`."""
    total = 0.0
    for number in range(windows):
        row = text[number * WINDOW : (number + 1) * WINDOW + 1].astype(np.int64)
        logits = np.asarray(run(row[None, :-1]))[0].astype(np.float64)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        total += float(np.mean(np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(WINDOW), row[1:]]))
    return math.exp(total / windows)


def chosen(run: Run, text: Array, count: int) -> tuple[Array, Array]:
    """The tokens of the largest logits at the first `count` positions, and how far those are above the second."""
    best, gaps = [], []
    for number in range(-(-count // WINDOW)):
        logits = np.asarray(run(text[number * WINDOW : (number + 1) * WINDOW].astype(np.int64)[None]))[0]
        best.append(logits.argmax(axis=-1))
        two = np.partition(logits, -2, axis=-1)[:, -2:]
        gaps.append(two[:, 1] - two[:, 0])
    return np.concatenate(best)[:count], np.concatenate(gaps)[:count]


def perplexities(name: str, decoder: Decoder, model: onnx.ModelProto, texts: tuple[Array, Array], windows: int) -> None:
    """Print a row for each precision."""
    train, held_out = texts
    data = calibration(train)
    runs: dict[str, Callable[[], Run]] = {
        "float32, PyTorch": lambda: in_torch(decoder),
        "float32": lambda: tw.compile(model, threads=1),
        "bfloat16 (precision=bf16)": lambda: tw.compile(model, threads=1, precision="bf16"),
    }
    kinds: dict[str, dict[str, Any]] = {
        "": {}, ", zero points": {"symmetric": False}, ", tables too": {"tables": True},
        ", compensated": {"data": data}, ", blocks of 128": {"block": 128},
    }  # fmt: skip
    for bits, names in (
        (8, ("", ", tables too")),
        (4, tuple(kinds)),
        (3, ("", ", compensated")),
        (2, ("", ", compensated")),
    ):
        for more in names:
            runs[f"weights of {bits} bits{more}"] = lambda bits=bits, options=kinds[more]: tw.quantize(
                model, weights=bits, threads=1, **options
            ).compile(threads=1)
    print(f"{name}: perplexity of {windows * WINDOW} tokens held out\n\n| | perplexity | of float32 |\n|---|---|---|")
    base = 0.0
    for kind, make in runs.items():
        found = perplexity(make(), held_out, windows)
        base = base or found
        print(f"| {kind} | {found:.3f} | {found / base:.4f} |", flush=True)


def calibration(train: Array) -> dict[str, Array]:
    """Windows of the text trained on, by the name of the input."""
    begins = np.random.default_rng(5).integers(0, len(train) - WINDOW, CALIBRATED)
    return {"tokens": np.stack([train[b : b + WINDOW] for b in begins]).astype(np.int64)[:, None]}


def in_bytes(model: onnx.ModelProto, texts: tuple[Array, Array], windows: int, name: str) -> None:
    """Print perplexities with weights and activations of 8 bits, as they are and with factors for channels."""
    base = perplexity(tw.compile(model, threads=1), texts[1], windows)
    print(f"| {name} | float32 | {base:.3f} | 1.0000 | |", flush=True)
    for options in ({}, {"equalize": True}, {"equalize": True, "rounding": "adaptive"}):
        found = tw.quantize(model, calibration(texts[0]), threads=1, objective=None, **options)  # type: ignore[arg-type]
        ours = perplexity(found.compile(threads=1), texts[1], windows)
        factors = sum(bool(one.factors) for one in found.recipe.choices.values())
        print(f"| {name} | {options} | {ours:.3f} | {ours / base:.4f} | {factors} |", flush=True)


def answers(decoder: Decoder, model: onnx.ModelProto, text: Array, count: int, name: str) -> None:
    """Print the numbers of tokens that are not those of exact arithmetic."""
    for bits in (4, 8):
        rows = {}
        for level in (0, 4):
            found = tw.quantize(model, weights=bits, accuracy_level=level, threads=1, for_onnx=True)
            rows[f"level {level}"] = found.compile(threads=1)
            rows[f"onnxruntime, level {level}"] = in_onnxruntime(found.to_onnx())
        best, gaps = chosen(exact_of(decoder, found), text, count)
        for kind, run in rows.items():
            ours, _ = chosen(run, text, count)
            wrong = ours != best
            widest = f"{gaps[wrong].max():.1e}" if wrong.any() else ""
            print(f"| {name} | {bits} | {kind} | {int(wrong.sum())} | {widest} |", flush=True)


def main() -> None:
    """Print the tables, or one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=10000)
    parser.add_argument("--only", choices=("perplexity", "tokens", "bytes"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    texts, decoder = tokens(args.folder), trained(args.folder)
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for name, one in (("as trained", decoder), ("outlier channels", with_outliers(decoder))):
            export(one, Path(folder))
            models[name] = one, onnx.load(Path(folder) / "model.onnx")
    if args.only in (None, "bytes"):
        print("| model | options | perplexity | of float32 | layers with factors |\n|---|---|---|---|---|")
        for name, (_, model) in models.items():
            in_bytes(model, texts, args.windows, name)
    if args.only in (None, "perplexity"):
        for name, (one, model) in models.items():
            perplexities(name, one, model, texts, args.windows)
    if args.only in ("perplexity", "bytes"):
        return
    print(f"\n{args.tokens} tokens\n\n| model | bits | | wrong tokens | widest gap of those |\n|---|---|---|---|---|")
    for name, (one, model) in models.items():
        answers(one, model, texts[1], args.tokens, name)


if __name__ == "__main__":
    main()
