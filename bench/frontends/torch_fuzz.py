"""Operators of PyTorch by torch.compile in every element type, in inference and training, against eager mode.

    python bench/frontends/torch_fuzz.py [--seed 0] [--samples 2] [--dtypes float32,bool] [--seconds 600] [--part 0/4]
        [--file FILE] [PATTERN ...]

Samples are those that PyTorch tests its operators with (OpInfo); some are made to lie in memory in another order. A
call is compared with eager mode, and where the operator has gradients those of its floating operands, weighted at
random so that a transposed one does not pass. What eager mode refuses must be refused. The seed is printed with
everything that is wrong; `--seed` and the operator's name repeat it. Needs torch, expecttest, scipy.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from bench.frontends.torch_opinfo import _UNDETERMINED
from tilewright.torch_backend import FallbackWarning

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")

#: (relative, absolute) difference that is taken as rounding.
_ROUNDING = {torch.float64: (1e-6, 1e-7), torch.float16: (2e-2, 2e-2), torch.bfloat16: (1e-1, 1e-1)}

#: Seconds of the processor that a sample may take.
_LIMIT = 60


def _call(entry: Any, sample: Any, clone: bool = True) -> tuple[Callable[..., Any], list[Any]]:
    """A function of the tensors of a sample, everything else fixed, and these tensors."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: Any) -> Any:
        filled = list(leaves)
        for position, tensor in zip(positions, tensors):
            filled[position] = tensor
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return entry.op(*args, **kwargs)

    return function, [leaves[position] for position in positions]


def _run(function: Callable[..., Any], tensors: list[Any], training: bool, sample: Any, seed: int) -> list[Any]:
    """Results, and in training the gradients of the operands, as plain values."""
    given = [tensor.detach() for tensor in tensors]
    wrt = [one.requires_grad_() for one, had in zip(given, tensors) if had.requires_grad] if training else []
    with torch.set_grad_enabled(training):
        made = function(*given)
        if sample.output_process_fn_grad is not None:  # of which not all is determined: signs of singular vectors
            made = sample.output_process_fn_grad(made)
    found = [leaf for leaf in pytree.tree_leaves(made) if leaf is not None]
    loss = None
    generator = torch.Generator().manual_seed(seed)
    for one in found:
        if wrt and isinstance(one, torch.Tensor) and one.requires_grad:
            weight = torch.randn(one.shape, generator=generator, dtype=torch.float64).to(one.dtype)
            part = (one * weight).sum()
            loss = part if loss is None else loss + part
    if loss is not None:
        loss = loss.abs() if loss.is_complex() else loss
        found += [one for one in torch.autograd.grad(loss, wrt, allow_unused=True) if one is not None]
    return [one.detach() if isinstance(one, torch.Tensor) else one for one in found]


def _unlike(found: list[Any], right: list[Any], count: int) -> str:
    """The first result or gradient, beyond the first `count`, that is not right; empty where all are."""
    if len(found) != len(right):
        return f"{len(found)} results for {len(right)}"
    for position, (one, other) in enumerate(zip(found, right)):
        what = "result" if position < count else "gradient"
        if not isinstance(other, torch.Tensor):
            if one != other and not (one != one and other != other):
                return f"{what} {one!r} for {other!r}"
            continue
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{what} {one.dtype}{list(one.shape)} for {other.dtype}{list(other.shape)}"
        relative, absolute = _ROUNDING.get(other.dtype, (1e-3, 1e-4))
        exact = torch.complex128 if other.dtype.is_complex else torch.float64
        a, b = one.to(exact), other.to(exact)
        finite = b[b.isfinite()].abs()
        absolute *= max(1.0, float(finite.max()) if finite.numel() else 1.0)
        if not torch.allclose(a, b, relative, absolute, equal_nan=True):
            bad = ~torch.isclose(a, b, relative, absolute, equal_nan=True)
            return (
                f"{what} {position} {other.dtype}{list(other.shape)}: {int(bad.sum())} wrong, "
                f"{one[bad][0].item()!r} for {other[bad][0].item()!r}"
            )
    return ""


def judge(entry: Any, sample: Any, training: bool, seed: int) -> tuple[str, str]:
    """The outcome of a sample, in a word, and the reason."""
    torch._dynamo.reset()
    function, tensors = _call(entry, sample)
    if any(isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided for leaf in tensors):
        return "sparse", ""
    refusal: Exception | None = None
    try:
        right = _run(function, tensors, training, sample, seed)
        count = len(_run(function, tensors, False, sample, seed))
    except Exception as error:
        refusal = error
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = _run(torch.compile(function, backend="tilewright"), tensors, training, sample, seed)
        except Exception as error:
            if refusal is not None:
                return "refused", ""
            torch._dynamo.reset()
            try:
                _run(torch.compile(function, backend="aot_eager"), tensors, training, sample, seed)
            except Exception:
                return "refused by AOTAutograd", ""
            return "raised", f"{type(error).__name__}: {error}"[:300]
    if refusal is not None:
        return "not refused", f"{type(refusal).__name__}: {refusal}"[:200]
    why = _unlike(found, right, count)
    if why:
        torch._dynamo.reset()
        other = _run(torch.compile(function, backend="aot_eager"), tensors, training, sample, seed)
        return ("as AOTAutograd", "") if _unlike(other, right, count) else ("wrong", why)
    messages = [str(one.message) for one in caught if isinstance(one.message, FallbackWarning)]
    return ("fell back", messages[0][:300]) if messages else ("agreed", "")


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"took more than {_LIMIT} seconds")


def main() -> None:
    """Print what is wrong as it is found, and how many of what at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of operators (regular expressions)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=2, help="samples of an operator and type, chosen at random")
    parser.add_argument("--dtypes", default=",".join(_DTYPES))
    parser.add_argument("--seconds", type=float, default=600, help="begin no operator after this time")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th operator from the K-th on")
    parser.add_argument("--file", type=Path, help="add outcomes to this file")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _too_long)
    first, step = map(int, options.part.split("/"))
    names = options.patterns
    chosen = [entry for entry in op_db if not _UNDETERMINED.search(entry.name)]
    chosen = [entry for entry in chosen if not names or any(re.fullmatch(one, entry.name) for one in names)][
        first::step
    ]
    random.Random(options.seed).shuffle(chosen)
    end, totals = time.monotonic() + options.seconds, Counter[str]()
    for entry in chosen:
        if time.monotonic() > end:
            break
        for name in options.dtypes.split(","):
            for outcome, text in _of_type(entry, getattr(torch, name), options):
                totals[outcome] += 1
                if outcome in ("wrong", "raised", "not refused", "fell back"):
                    print(
                        f"{outcome}: {entry.name} {entry.variant_test_name} {name} seed {options.seed}: {text}",
                        flush=True,
                    )
                if options.file is not None:
                    with options.file.open("a") as file:
                        file.write(json.dumps([entry.name, entry.variant_test_name, name, outcome, text]) + "\n")
    print(f"seed {options.seed}, {sum(totals.values())} runs: {dict(totals)}")


def _of_type(entry: Any, dtype: Any, options: Any) -> list[tuple[str, str]]:
    """The outcomes of some samples of an operator in one element type, in inference and training."""
    if dtype not in entry.dtypes:
        return []
    chance = random.Random(f"{options.seed} {entry.name} {entry.variant_test_name} {dtype}")
    training = entry.supports_autograd and dtype in entry.backward_dtypes
    torch.manual_seed(options.seed)
    try:
        samples = list(entry.sample_inputs("cpu", dtype, requires_grad=training))
    except Exception:
        return []
    outcomes = []
    for sample in chance.sample(samples, min(options.samples, len(samples))):
        if chance.random() < 0.4:
            sample = sample.noncontiguous()
        for train in (False, True) if training else (False,):
            signal.setitimer(signal.ITIMER_PROF, _LIMIT)
            try:
                outcome = judge(entry, sample, train, options.seed)
            except TimeoutError as error:
                outcome = ("raised", str(error))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            outcomes.append((outcome[0], ("in training: " if train else "") + outcome[1]))
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
