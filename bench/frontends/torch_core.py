"""Overloads of core ATen in programs that agree with eager mode, with the programs.

    python bench/frontends/torch_core.py [--samples 2] [--part 0/4] [--own] [--json FILE]

Samples of OpInfo (float32) are exported and decomposed to core ATen; a program that agrees counts for every overload
that it is made of. With `--json`, what other parts found is read first and written back with what is new, and operators
all of whose core overloads are known are still run. Then comes a call of our own of every overload, which counts for it
also where PyTorch makes something else of it (`sym_size` a number, `resize_` a copy).
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
from torch_opinfo import _UNDETERMINED, Call, op_db, plain, samples

from tilewright.frontend.torch import from_pytorch
from tilewright.frontend.torch.core import CORE, missing_core, overload
from tilewright.frontend.torch.decompose import calls
from tilewright.relay.interpreter.interpreter import interpret

aten = torch.ops.aten


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x)


_X, _Y, _PLANE, _BLOCK = _randn(3, 4), _randn(4, 3).T, _randn(1, 2, 6, 6), _randn(1, 2, 5, 5, 5)
_BITS = (_randn(3, 4) * 9).to(torch.int32)
_MEAN, _SCALE = torch.rand(2, 3), torch.rand(2, 3)

#: A call for each overload: a function, and tensors for it.
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
    **{
        f"{name}.Scalar": (lambda x, name=name: getattr(aten, name).Scalar(x, 0.75), (_X,))
        for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "remainder")
    },
    **{
        f"{name}.Scalar": (lambda x, name=name: getattr(aten, name).Scalar(x, 6), (_BITS,))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    **{
        name: (lambda x, name=name: getattr(aten, name).default(x), (_X.abs() / 4,))
        for name in (
            "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor",
            "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "mean", "neg", "nonzero", "prod",
            "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
            "alias", "clone", "any", "gelu", "elu", "leaky_relu", "hardtanh",
        )
    },
    **{
        f"{name}.Tensor": (lambda x, y, name=name: getattr(aten, name).Tensor(x, y), (_X, _Y))
        for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "remainder")
    },
    **{
        f"{name}.Tensor": (lambda x, y, name=name: getattr(aten, name).Tensor(x, y), (_BITS, _BITS.flip(0)))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    **{
        f"logical_{name}": (lambda x, y, name=name: getattr(aten, f"logical_{name}")(x > 0, y > 0), (_X, _Y))
        for name in ("and", "or", "xor")
    },
    **{name: (lambda x, name=name: getattr(aten, name)(x, [1]), (_X,)) for name in ("amax", "amin", "flip")},
    **{
        name: (lambda x, name=name: getattr(aten, name)(x, 1), (_X,))
        for name in ("argmax", "argmin", "unsqueeze", "sort")
    },
    **{name: (lambda x, name=name: getattr(aten, name)(x, 1, False), (_X,)) for name in ("_softmax", "_log_softmax")},
    **{name: (lambda x, y, name=name: getattr(aten, name)(x, y), (_X, _Y)) for name in ("maximum", "minimum")},
    "_to_copy": (lambda x: aten._to_copy(x, dtype=torch.float64), (_X,)),
    "addmm": (lambda x, y: aten.addmm(x[:, :3], x, y.T, beta=0.5, alpha=2), (_X, _Y)),
    "mm": (lambda x, y: aten.mm(x, y.T), (_X, _Y)),
    "bmm": (lambda x, y: aten.bmm(x[None], y.T[None]), (_X, _Y)),
    "arange.start_step": (lambda x: aten.arange.start_step(1, 9, 2) + x, (_X,)),
    "as_strided": (lambda x: aten.as_strided(x, [3, 2], [4, 2], 1), (_X,)),
    "bitwise_not": (lambda x: aten.bitwise_not(x), (_BITS,)),
    "cat": (lambda x, y: aten.cat([x, y], 1), (_X, _Y)),
    "clamp": (lambda x: aten.clamp(x, -0.5, 0.5), (_X,)),
    "constant_pad_nd": (lambda x: aten.constant_pad_nd(x, [1, -1, 0, 2], 3), (_X,)),
    "convolution": (
        lambda x, w: aten.convolution(x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
        (_PLANE, _randn(3, 2, 3, 3)),
    ),
    "diagonal": (lambda x: aten.diagonal(x, 1), (_X,)),
    "embedding": (lambda x: aten.embedding(x, torch.tensor([[0, 2], [1, 1]])), (_X,)),
    "expand": (lambda x: aten.expand(x, [2, 3, 4]), (_X,)),
    "gather": (lambda x: aten.gather(x, 1, torch.tensor([[0, 3]])), (_X,)),
    "index.Tensor": (lambda x: aten.index.Tensor(x, [None, torch.tensor([3, 1])]), (_X,)),
    "index_select": (lambda x: aten.index_select(x, 1, torch.tensor([3, 1])), (_X,)),
    "permute": (lambda x: aten.permute(x, [1, 0]), (_X,)),
    "repeat": (lambda x: aten.repeat(x, [2, 1]), (_X,)),
    "select.int": (lambda x: aten.select.int(x, 1, -1), (_X,)),
    "slice.Tensor": (lambda x: aten.slice.Tensor(x, 1, 0, 4, 2), (_X,)),
    "acosh": (lambda x: aten.acosh(x.abs() + 1), (_X,)),
    "atan2": (lambda x, y: aten.atan2(x, y), (_X, _Y)),
    "atan2.out": (lambda x, y: aten.atan2.out(x, y, out=torch.empty(3, 4)), (_X, _Y)),
    "any.dim": (lambda x: aten.any.dim(x > 1, 0), (_X,)),
    "any.dims": (lambda x: aten.any.dims(x > 1, [0, 1]), (_X,)),
    "div.Tensor_mode": (lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="floor"), (_X, _Y)),
    "div.Scalar_mode": (lambda x: aten.div.Scalar_mode(x, 0.3, rounding_mode="trunc"), (_X,)),
    "clamp.Tensor": (lambda x, y: aten.clamp.Tensor(x, y), (_X, _Y)),
    "copy": (lambda x, y: aten.copy(x, y), (_X, _Y)),
    "cumsum": (lambda x: aten.cumsum(x, 1), (_X,)),
    "empty.memory_format": (lambda x: aten.empty.memory_format([3, 4]).zero_() + x, (_X,)),
    "empty_strided": (lambda x: aten.empty_strided([3, 4], [1, 3]).fill_(2) + x, (_X,)),
    "fill.Scalar": (lambda x: aten.fill.Scalar(x, 3), (_X,)),
    "full": (lambda x: aten.full([3, 4], 2.5) + x, (_X,)),
    "full_like": (lambda x: aten.full_like(x, 2.5), (_X,)),
    "masked_scatter": (lambda x, y: aten.masked_scatter(x, x > 0, y), (_X, _Y)),
    "max.dim": (lambda x: aten.max.dim(x, 1), (_X,)),
    "min.dim": (lambda x: aten.min.dim(x, 1), (_X,)),
    "max_pool2d_with_indices": (lambda x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2]), (_PLANE,)),
    "max_pool3d_with_indices": (lambda x: aten.max_pool3d_with_indices(x, [2, 2, 2], [2, 2, 2]), (_BLOCK,)),
    "adaptive_avg_pool1d": (lambda x: aten.adaptive_avg_pool1d(x, [2]), (_randn(1, 3, 8),)),
    "avg_pool1d": (lambda x: aten.avg_pool1d(x, [2]), (_randn(1, 3, 8),)),
    "avg_pool2d": (lambda x: aten.avg_pool2d(x, [2, 2]), (_PLANE,)),
    "avg_pool3d": (lambda x: aten.avg_pool3d(x, [2, 2, 2]), (_BLOCK,)),
    "_adaptive_avg_pool2d": (lambda x: aten._adaptive_avg_pool2d(x, [4, 4]), (_PLANE,)),
    "_adaptive_avg_pool3d": (lambda x: aten._adaptive_avg_pool3d(x, [2, 2, 2]), (_BLOCK,)),
    "_cdist_forward": (lambda x, y: aten._cdist_forward(x, y, 2.0, None), (_X, _Y)),
    "_embedding_bag": (
        lambda x: aten._embedding_bag(x, torch.tensor([0, 2, 1]), torch.tensor([0, 2]))[0], (_X,),
    ),
    "_fft_r2c": (lambda x: _complex(aten._fft_r2c(x, [1], 0, True)), (_X,)),
    "_fft_c2r": (lambda x: aten._fft_c2r(torch.view_as_complex(x), [1], 2, 4), (_randn(3, 3, 2),)),
    "_native_batch_norm_legit": (
        lambda x, m, v: aten._native_batch_norm_legit(x, None, None, m, v, True, 0.1, 1e-5)[0],
        (_randn(4, 3), _randn(3), _randn(3).abs()),
    ),
    "_native_batch_norm_legit.no_stats": (
        lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), (_randn(4, 3),),
    ),
    "_native_batch_norm_legit_no_training": (
        lambda x, m, v: aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-5)[0],
        (_randn(4, 3), _randn(3), _randn(3).abs()),
    ),
    "col2im": (lambda x: aten.col2im(x, [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]), (_randn(1, 8, 4),)),
    "grid_sampler_2d": (lambda x, g: aten.grid_sampler_2d(x, g, 0, 0, False), (_PLANE, _randn(1, 4, 4, 2))),
    "index_put": (lambda x: aten.index_put(x, [torch.tensor([0, 2])], torch.ones(4)), (_X,)),
    "native_group_norm": (lambda x: aten.native_group_norm(x, None, None, 2, 6, 5, 3, 1e-5), (_randn(2, 6, 5),)),
    "native_layer_norm": (lambda x: aten.native_layer_norm(x, [4], None, None, 1e-5), (_X,)),
    "native_dropout": (lambda x: aten.native_dropout(x, 0.5, True)[0].abs() < 2.1 * x.abs(), (_X,)),
    "pow.Scalar": (lambda x: aten.pow.Scalar(2.0, x), (_X,)),
    "pow.Tensor_Scalar": (lambda x: aten.pow.Tensor_Scalar(x, 3), (_X,)),
    "pow.Tensor_Tensor": (lambda x, y: aten.pow.Tensor_Tensor(x.abs(), y), (_X, _Y)),
    "prod.dim_int": (lambda x: aten.prod.dim_int(x, 1), (_X,)),
    "rand": (lambda x: (aten.rand([3, 4]) < 1) & (x == x), (_X,)),
    "randn": (lambda x: aten.randn([3, 4]).isfinite() & (x == x), (_X,)),
    "randperm": (lambda x: aten.randperm(12).sort()[0].view(3, 4) + x, (_X,)),
    **{
        f"{kind}_pad{rank}d": (
            lambda x, kind=kind, rank=rank: getattr(aten, f"{kind}_pad{rank}d")(x, [1] * 2 * rank),
            (_randn(1, *[3] * (rank + 1)),),
        )
        for kind, rank in (("reflection", 1), ("reflection", 2), ("reflection", 3),
                           ("replication", 2), ("replication", 3))
    },
    "resize_": (lambda x: aten.resize_(x.clone(), [2, 3]), (_X,)),
    "scatter.src": (lambda x, y: aten.scatter.src(x, 1, torch.tensor([[0, 2]]), y), (_X, _Y)),
    "scatter.value": (lambda x: aten.scatter.value(x, 1, torch.tensor([[0, 2]]), 9), (_X,)),
    "scatter_add": (lambda x, y: aten.scatter_add(x, 1, torch.tensor([[0, 2, 2]]), y), (_X, _Y)),
    "scatter_reduce.two": (lambda x, y: aten.scatter_reduce.two(x, 1, torch.tensor([[0, 2]]), y, "amax"), (_X, _Y)),
    "select_scatter": (lambda x: aten.select_scatter(x, x[0], 0, 2), (_X,)),
    "slice_scatter": (lambda x: aten.slice_scatter(x, x[:2], 0, 1, 3), (_X,)),
    "split_with_sizes": (lambda x: aten.split_with_sizes(x, [1, 3], 1), (_X,)),
    "squeeze.dim": (lambda x: aten.squeeze.dim(x[None], 0), (_X,)),
    "squeeze.dims": (lambda x: aten.squeeze.dims(x[None, :, None], [0, 2]), (_X,)),
    "sum.dim_IntList": (lambda x: aten.sum.dim_IntList(x, [0]), (_X,)),
    "mean.dim": (lambda x: aten.mean.dim(x, [0]), (_X,)),
    "topk": (lambda x: aten.topk(x, 2), (_X,)),
    "upsample_bilinear2d.vec": (lambda x: aten.upsample_bilinear2d.vec(x, None, False, [1.5, 2.0]), (_PLANE,)),
    "upsample_nearest2d.vec": (lambda x: aten.upsample_nearest2d.vec(x, [9, 7], None), (_PLANE,)),
    "var.correction": (lambda x: aten.var.correction(x, [1], correction=0), (_X,)),
    "var.dim": (lambda x: aten.var.dim(x, [1]), (_X,)),
    "view": (lambda x: aten.view(x, [2, 6]), (_X,)),
    "where.self": (lambda x, y: aten.where.self(x > 0, x, y), (_X, _Y)),
    "sym_is_contiguous": (lambda x: x * (2 if x.is_contiguous() else 3), (_X,)),
    "sym_numel": (lambda x: x.flatten() * x.numel(), (_randn(3, 2),)),
    "sym_size.int": (lambda x: x * x.shape[0], (_randn(3, 2),)),
    "sym_stride.int": (lambda x: x * x.stride(0), (_randn(3, 2),)),
    "sym_storage_offset": (lambda x: x * (x.storage_offset() + 1), (_randn(3, 2),)),
}  # fmt: skip


def agrees(function: Any, tensors: list[Any]) -> tuple[bool, set[str]]:
    """Agreement of a function exported and decomposed to core ATen, and the overloads that it becomes."""
    wanted = function(*[tensor.clone() for tensor in tensors])
    program = torch.export.export(function, tuple(tensors), strict=False).run_decompositions()
    names = {str(node.target) for node in calls(program)}
    module, specs = from_pytorch(program)
    results = interpret(module, [plain(tensor).contiguous().numpy() for tensor in tensors][: len(specs)])
    expected = [plain(leaf) for leaf in pytree.tree_leaves(wanted) if isinstance(leaf, torch.Tensor | float)]
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
    parser.add_argument("--own", action="store_true", help="the calls of our own only")
    parser.add_argument("--json", type=Path, help="what is covered, by what")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    first, step = map(int, options.part.split("/"))
    covered: dict[str, str] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    core = {overload(name) for name in CORE}
    chosen = [one for one in op_db if torch.float32 in one.dtypes and not _UNDETERMINED.search(one.name)]
    for entry in [] if options.own else chosen[first::step]:
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
