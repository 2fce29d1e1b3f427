"""PyTorch's own modules (ModuleInfo, float32) through `torch.compile(backend="tilewright")`, beside eager mode.

    python bench/frontends/torch_modules.py [--samples 0] [--file FILE] [--seconds 500] [NAME ...]

Each module is made and called as PyTorch's tests do, for inference and, in training mode, with a backward pass: outputs
and gradients are compared. "fallback" is a graph that ran in PyTorch, with the warning that says why. Modules that draw
random numbers are compared in inference only. Graphs that Dynamo itself breaks are counted by the way. `--samples`
takes so many of the calls of each module and mode, spread over all. With `--file`, a line of JSON is added for each
module, and modules that it has are not run again; `--seconds` begins no module after that time. Needs torch, expecttest
and hypothesis.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

from tilewright.torch_backend import FallbackWarning
from tilewright.torch_backend import tilewright as backend

#: Modules whose results are random in training.
_RANDOM = ("Dropout", "RReLU", "FractionalMaxPool", "Transformer")


def tensors(value: Any) -> list[Any]:
    """The tensors of floats in a result."""
    leaves = pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def once(run: Any, module: Any, given: Any, training: bool) -> tuple[list[Any], list[Any]]:
    """Results and, in training, the gradients of parameters and inputs."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda one: one.detach().clone(), (given.args, given.kwargs))
    inputs = [one for one in tensors((args, kwargs)) if one.is_floating_point()]
    for one in inputs:
        one.requires_grad_(training)
    results = tensors(run(*args, **kwargs))
    if not training:
        return results, []
    torch.stack([one.float().sum() for one in results if one.requires_grad]).sum().backward()
    return results, [one.grad for one in (*module.parameters(), *inputs)]


def judge(info: Any, sample: Any, training: bool) -> tuple[str, str]:
    """The outcome of a module, in a word, and the reason."""
    built, given = sample.constructor_input, sample.forward_input
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        module = info.module_cls(*built.args, **built.kwargs).train(training)
        with torch.no_grad():  # weights of lazy modules come with the first call
            copy.deepcopy(module) if not _is_lazy(module) else module(*given.args, **given.kwargs)
        other = copy.deepcopy(module)
        with torch.set_grad_enabled(training):
            wanted = once(module, module, given, training)
    except Exception as error:
        return "not by PyTorch", f"{type(error).__name__}: {error}"[:200]
    with warnings.catch_warnings(record=True) as seen, torch.set_grad_enabled(training):
        warnings.simplefilter("always", FallbackWarning)
        try:
            found = once(torch.compile(other, backend=backend), other, given, training)
        except Exception as error:
            return "failed", f"{type(error).__name__}: {error}"[:400]
    messages = [str(one.message) for one in seen if issubclass(one.category, FallbackWarning)]
    if messages:
        return "fallback", messages[0][:300]
    states = [[*one.state_dict().values()] for one in (module, other)]
    for ours, right in zip((*found, states[1]), (*wanted, states[0])):
        if len(ours) != len(right):
            return "failed", f"{len(ours)} values instead of {len(right)}"
        for one, two in zip(ours, right):
            if (one is None) != (two is None):
                return "failed", "a gradient is missing"
            if one is not None and not torch.allclose(one, two, 1e-3, 1e-4, equal_nan=True):
                return "failed", f"wrong numbers {one.dtype}{list(one.shape)}"
    broken = torch._dynamo.utils.counters["graph_break"]
    return ("passed", f"Dynamo broke: {next(iter(broken))}"[:200]) if broken else ("passed", "")


def _is_lazy(module: Any) -> bool:
    return isinstance(module, torch.nn.modules.lazy.LazyModuleMixin)


def of_module(info: Any, most: int) -> list[tuple[str, str, str, str]]:
    """Name, mode, outcome and reason of each sample of a module, or of `most`, in both modes."""
    found = []
    for training in (False, True):
        mode = "training" if training else "inference"
        if training and any(part in info.name for part in _RANDOM):
            continue
        torch.manual_seed(0)
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
        )
        called = [sample for sample in samples if sample.forward_input is not None]
        for sample in called[:: -(-len(called) // most) if most else 1]:
            found.append((info.name, mode, *judge(info, sample, training)))
    return found


def main() -> None:
    """Print what became of the modules, and everything that did not agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=0, help="calls a module and mode; 0 for all")
    parser.add_argument("--file", type=Path, help="add outcomes to this file; modules that it has are not run again")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no module after this time")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    began = time.monotonic()
    outcomes: list[list[str]] = []
    if options.file is not None and options.file.exists():
        outcomes = [one for line in options.file.read_text().splitlines() for one in json.loads(line)]
    done = {outcome[0] for outcome in outcomes}
    for info in module_db:
        late = time.monotonic() - began > options.seconds
        if info.name in done or late or (options.names and info.name not in options.names):
            continue
        found = [list(one) for one in of_module(info, options.samples)]
        outcomes += found
        if options.file is not None:
            with options.file.open("a") as file:
                file.write(json.dumps(found) + "\n")
    totals = Counter((mode, outcome) for _, mode, outcome, _ in outcomes)
    print(f"{len(outcomes)} runs of {len({one[0] for one in outcomes})} modules")
    for (mode, outcome), count in sorted(totals.items()):
        print(f"{mode}: {outcome} {count}")
    reasons = Counter((name, mode, outcome, " ".join(why.split())) for name, mode, outcome, why in outcomes if why)
    for (name, mode, outcome, why), count in reasons.items():
        print(f"{name} {mode}: {outcome} {count} times: {why}")


if __name__ == "__main__":
    main()
