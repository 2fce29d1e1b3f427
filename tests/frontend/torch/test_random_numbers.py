"""Random numbers of imported programs: of the right distribution, new in every run, or by PyTorch's seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.interpreter.interpreter import interpret

torch = pytest.importorskip("torch", reason="needs the torch package")
functional = torch.nn.functional


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


X = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))


def drawn(function: Any) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of two runs."""
    module, _ = from_pytorch(torch.export.export(Call(function), (X,)))
    return tuple(interpret(module, [X.numpy()])[0] for _ in range(2))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "mean", "deviation"),
    [
        (lambda x: torch.rand_like(x), 0.5, 12**-0.5),
        (lambda x: torch.randn(40, 50) + 0 * x, 0.0, 1.0),
        (lambda x: torch.randint(3, 8, (40, 50)) + 0 * x, 5.0, 2**0.5),
        (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), 0.3, 0.21**0.5),
        (lambda x: torch.empty_like(x).uniform_(-1, 3), 1.0, 4 * 12**-0.5),
        (lambda x: torch.empty_like(x).normal_(2, 3), 2.0, 3.0),
        (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5),
    ],
)
def test_draws_have_mean_and_deviation_of_their_distribution(function: Any, mean: float, deviation: float) -> None:
    first, second = drawn(function)
    for values in (first, second):
        assert abs(values.mean() - mean) < 6 * deviation / values.size**0.5  # six standard errors
        assert abs(values.std() / deviation - 1) < 0.2
    assert (first != second).mean() > 0.3


def test_random_orders_hold_every_number_once() -> None:
    first, second = drawn(lambda x: torch.randperm(200) + 0 * x.sum())
    assert sorted(first) == sorted(second) == list(range(200)) and (first != second).any()


@pytest.mark.parametrize("way", ["dropout", "channels", "decomposed"])
def test_dropout_in_training(way: str) -> None:
    def function(x: Any) -> Any:
        if way == "channels":
            return functional.dropout2d(x.reshape(40, 50, 1, 1).expand(40, 50, 2, 2) + 9, 0.25)
        return functional.dropout(x, 0.25)

    program = torch.export.export(Call(function), (X,))
    module, _ = from_pytorch(program.run_decompositions() if way == "decomposed" else program)
    (found,) = interpret(module, [X.numpy()])
    given = np.broadcast_to(X.numpy().reshape(40, 50, 1, 1) + 9, found.shape) if way == "channels" else X.numpy()
    kept = found != 0
    assert abs(kept.mean() - 0.75) < 0.06
    np.testing.assert_allclose(found[kept], given[kept] / 0.75, 1e-5)
    if way == "channels":
        assert (kept.all((2, 3)) | ~kept.any((2, 3))).all()


def test_attention_drops_weights() -> None:
    x = torch.ones(1, 8, 200, 4)
    function = Call(lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5))
    module, _ = from_pytorch(torch.export.export(function, (x,)))
    (found,) = interpret(module, [x.numpy()])
    assert abs(found.mean() - 1) < 0.05 and 0.02 < found.std() < 0.2


def test_a_seed_of_pytorch_gives_the_same_numbers() -> None:
    from tilewright.torch_backend import tilewright

    compiled = torch.compile(lambda x: functional.dropout(x * 2, 0.4), backend=tilewright)
    x = X.clone().requires_grad_()
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        found += [compiled(x), compiled(x)]
    assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[3])
    assert not torch.equal(found[0], found[1])
    found[0].sum().backward()
    assert torch.equal(x.grad == 0, found[0] == 0)  # the gradient is of the elements that were kept


def test_sizes_that_are_not_fixed_are_refused() -> None:
    rows = torch.export.Dim("rows")
    program = torch.export.export(Call(torch.rand_like), (X,), dynamic_shapes=({0: rows},))
    with pytest.raises(UnsupportedError, match="random numbers as a size that is not fixed"):
        from_pytorch(program)
