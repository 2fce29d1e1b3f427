"""Which overloads of core ATen are in programs that agree with eager mode, and where from.

    python bench/frontends/torch_core.py [--samples 2] [--part 0/4] [--json FILE]

Samples of OpInfo (float32) are exported and decomposed to core ATen; a program that agrees counts for every overload
that it is made of. With `--json`, what other parts found is read first and written back with what is new, and operators
all of whose core overloads are known are still run. Then come calls of our own, for overloads that no sample reaches.
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch_opinfo import _UNDETERMINED, Call, op_db, samples

from tilewright.frontend.torch import from_pytorch
from tilewright.frontend.torch.core import CORE, missing_core, overload
from tilewright.frontend.torch.decompose import calls
from tilewright.relay.interpreter.interpreter import interpret

aten = torch.ops.aten


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


_MEAN, _SCALE = torch.rand(2, 3), torch.rand(2, 3)

#: Calls for overloads that the samples do not reach: tensors, and a function of them.
OWN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "_adaptive_avg_pool2d_backward": (aten._adaptive_avg_pool2d_backward, (_randn(1, 2, 3, 3), _randn(1, 2, 7, 5))),
    "avg_pool2d_backward": (
        lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
        (_randn(1, 2, 3, 3), _randn(1, 2, 6, 6)),
    ),
    "convolution_backward": (
        lambda g, x, w: aten.convolution_backward(
            g, x, w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
        ),
        (_randn(2, 4, 5, 5), _randn(2, 3, 5, 5), _randn(4, 3, 3, 3)),
    ),
    "embedding_dense_backward": (
        lambda g: aten.embedding_dense_backward(g, torch.tensor([0, 2, 2]), 4, -1, False), (_randn(3, 5),),
    ),
    "max_pool2d_with_indices_backward": (
        lambda g, x: aten.max_pool2d_with_indices_backward(
            g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, aten.max_pool2d_with_indices(x, [2, 2], [2, 2])[1]
        ),
        (_randn(1, 2, 3, 3), _randn(1, 2, 6, 6)),
    ),
    "native_layer_norm_backward": (
        lambda g, x, w, b: aten.native_layer_norm_backward(
            g, x, [6], x.mean(-1, True), 1 / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt(), w, b, [True] * 3
        ),
        (_randn(4, 6), _randn(4, 6), _randn(6), _randn(6)),
    ),
    "native_group_norm_backward": (
        lambda g, x, w: aten.native_group_norm_backward(g, x, _MEAN, _SCALE, w, 2, 6, 5, 3, [True, True, True]),
        (_randn(2, 6, 5), _randn(2, 6, 5), _randn(6)),
    ),
    "_pdist_forward": (lambda x: aten._pdist_forward(x, 2.0), (_randn(5, 3),)),
    "_local_scalar_dense": (lambda x: x * x.sum().item(), (_randn(3),)),
    "scalar_tensor": (lambda x: x + aten.scalar_tensor(2.5), (_randn(3),)),
    "sym_numel": (lambda x: x.flatten() * x.numel(), (_randn(3, 2),)),
    "sym_size.int": (lambda x: x * x.shape[0], (_randn(3, 2),)),
    "sym_stride.int": (lambda x: x * x.stride(0), (_randn(3, 2),)),
    "sym_storage_offset": (lambda x: x * (x.storage_offset() + 1), (_randn(3, 2),)),
}  # fmt: skip


def agrees(function: Any, tensors: list[Any]) -> tuple[bool, set[str]]:
    """Whether a function agrees when it is exported and decomposed to core ATen, and the overloads that it becomes."""
    wanted = function(*[tensor.clone() for tensor in tensors])
    program = torch.export.export(function, tuple(tensors), strict=False).run_decompositions()
    names = {str(node.target) for node in calls(program)}
    module, specs = from_pytorch(program)
    results = interpret(module, [tensor.contiguous().numpy() for tensor in tensors][: len(specs)])
    expected = [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(wanted) if isinstance(leaf, torch.Tensor | float)]
    results = results[: len(expected)]
    fit = len(results) == len(expected) and all(
        np.allclose(found.astype(np.float64), right.detach().double().numpy(), 1e-3, 1e-4, equal_nan=True)
        for found, right in zip(results, expected)
    )
    return fit, names


class Own(torch.nn.Module):
    """A call of our own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def of_samples(entry: Any, most: int) -> set[str]:
    """The overloads in programs of an operator's samples that agree."""
    found: set[str] = set()
    for sample in samples(entry, most):
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        fixed = {index: leaf for index, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)}
        try:
            fit, names = agrees(Call(entry.op, spec, fixed, len(leaves)), tensors)
        except Exception:  # of torch.export and of what is not supported: torch_opinfo.py says which
            continue
        if fit:
            found |= names
    return found


def main() -> None:
    """Print the overloads that are covered by samples, by calls of our own, and those that are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2, help="samples an operator; 0 for all")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th operator from the K-th on")
    parser.add_argument("--json", type=Path, help="what is covered, by what")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    first, step = map(int, options.part.split("/"))
    covered: dict[str, str] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    core = {overload(name) for name in CORE}
    for entry in [one for one in op_db if torch.float32 in one.dtypes and not _UNDETERMINED.search(one.name)][
        first::step
    ]:
        torch.manual_seed(0)
        for name in of_samples(entry, options.samples) & core:
            covered.setdefault(name, entry.name)
    for name, (function, tensors) in OWN.items():
        try:
            fit, _ = agrees(Own(function), list(tensors))
        except Exception as error:
            fit = False
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        if fit:
            covered.setdefault(overload(name), "a call of our own")
    if options.json:
        options.json.write_text(json.dumps(covered, indent=1, sort_keys=True))
    rest = sorted(core - set(covered))
    print(f"{len(core) - len(rest)} of {len(core)} core overloads are in programs that agree")
    print(f"without a converter: {', '.join(missing_core())}")
    print(f"not covered: {', '.join(rest)}")


if __name__ == "__main__":
    main()
