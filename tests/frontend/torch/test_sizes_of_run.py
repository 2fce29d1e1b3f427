"""Slices whose bounds a run computes, and sums of products with an ellipsis, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.interpreter.interpreter import interpret

torch = pytest.importorskip("torch", reason="needs the torch package")

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def count_of(x: Any) -> Any:
    """The number of positive elements, as a size."""
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    torch._check(count <= x.numel())
    return count


FUNCTIONS = {
    "filled": lambda x: (torch.zeros(count_of(x)), torch.full((count_of(x), 3), 2.5), torch.ones(2, count_of(x)).int()),
    "counted": lambda x: torch.arange(count_of(x)) * 2 + 1,
    "spread": lambda x: x[0].expand(count_of(x), 4) * count_of(x),
    "in two sizes": lambda x: torch.zeros(count_of(x) * 6).view(count_of(x) * 3, 2) + 1,
    "of two counts": lambda x: torch.ones(count_of(x) * (count_of(-x) + 1)).view(count_of(x), count_of(-x) + 1) * 3,
    "like what was found": lambda x: torch.zeros(x[x > 0].shape[0], 2) + x[x > 0][:, None],
    "the first of them": lambda x: torch.topk(x.flatten(), min(3, count_of(x)))[0],
    "split": lambda x: torch.split(x.flatten(), [count_of(x), x.numel() - count_of(x)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_that_a_run_computes(name: str) -> None:
    agree(FUNCTIONS[name], X, others=[(-X,), (X.abs(),), (-X.abs(),)])


def agree(function: Any, *tensors: Any, others: Any = ()) -> None:
    """The compiled and the interpreted program give what eager mode gives, on other inputs of the same shapes too."""
    module, specs = from_pytorch(torch.export.export(Call(function), tensors, strict=False))
    model = tilewright.compile(module, cache=False)
    for given in (tensors, *others):
        arrays = [tensor.numpy() for tensor in given]
        wanted = torch.utils._pytree.tree_leaves(function(*given))
        by_name = {spec.name: value for spec, value in zip(specs, arrays, strict=True)}
        for results in (interpret(module, arrays), model.run(by_name)):
            for found, right in zip(results, wanted, strict=True):
                np.testing.assert_allclose(found, right.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_tensor_says_where_to_split(axis: int) -> None:
    positions = (torch.tensor([1, 3]), torch.tensor([2, 9]), torch.tensor([0, -1]), torch.tensor([4, 2]))
    agree(
        lambda x, at: torch.tensor_split(x, at, axis),
        X,
        positions[0],
        others=[(X, position) for position in positions[1:]],
    )


EQUATIONS = {
    "i...->...": (X,),
    "...ik,...j->ij": (X[None], X[0]),
    "...ij,jk": (X[None], X.T),
    "ii->i": (X[:4],),
    "...a,...b->...ab": (X, X),
    "bi,bj->": (X, X),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_of_products(equation: str) -> None:
    agree(lambda *operands: torch.einsum(equation, *operands), *EQUATIONS[equation])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_several_tensors_get_axes(rank: int) -> None:
    several = getattr(torch, f"atleast_{rank}d")
    agree(lambda *tensors: several(list(tensors)), X, X[0], X[0, 0])


@pytest.mark.parametrize("ends", [(2, 3, 5), (0, 5, 5), (1, 1, 4), (0, 0, 0)], ids=str)
def test_groups_of_rows_have_a_matrix_each(ends: tuple[int, ...]) -> None:
    rows, matrices = (torch.randint(-3, 4, shape).bfloat16() for shape in ((5, 8), (3, 8, 16)))
    program = torch.export.export(Call(torch._grouped_mm), (rows, matrices, torch.tensor([2, 3, 5]).int()))
    model = tilewright.compile(program, cache=False)
    wanted, begin = torch.zeros(5, 16), 0
    for matrix, end in zip(matrices, ends, strict=True):
        wanted[begin:end], begin = rows[begin:end].float() @ matrix.float(), end
    given = dict(zip((spec.name for spec in model.inputs), (rows, matrices, torch.tensor(ends).int()), strict=True))
    (found,) = model.run(given)
    np.testing.assert_array_equal(np.asarray(found, "float32"), wanted.numpy())
