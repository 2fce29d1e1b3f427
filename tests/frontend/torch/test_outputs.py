"""Results of compiled graphs beside eager mode's: strides, offsets, and which share memory with which."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


#: Functions of a tensor of the shape beside them.
FUNCTIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "contiguous of a result": (lambda x: (y := x + 1, y.contiguous(), y.clone()), (4, 5)),
    "rows of a result": (lambda x: (y := x * 2, y[1], y[:, ::2], y.t())[1:], (4, 6)),
    "one column": (lambda x: (x * 2)[:, 1], (4, 6)),
    "pieces": (lambda x: ((x + 1).unbind(0), (x * 2).split([1, 2], 1)), (2, 3)),
    "expanded": (lambda x: ((x + 1).expand(4, 3, 5), x.expand(3, 5)), (1, 5)),
    "transposed": (lambda x: (x.t() + 1, x.t(), (x @ x.t())[1:].t()), (3, 5)),
    "permuted": (lambda x: (x.permute(2, 0, 1) * 2).permute(1, 0, 2), (2, 3, 4)),
    "heads": (lambda x: torch.cat([x, x], 2).view(2, 3, 2, 4).transpose(1, 2), (2, 3, 4)),
    "channels last": (lambda x: x.contiguous(memory_format=torch.channels_last).relu(), (2, 3, 4, 5)),
    "one channel last": (lambda x: x.contiguous(memory_format=torch.channels_last) * 2, (2, 1, 4, 5)),
    "viewed channels last": (
        lambda x: (x.to(memory_format=torch.channels_last) * 2).permute(0, 2, 3, 1).view(2, 20, 3),
        (2, 3, 4, 5),
    ),
    "pooled channels last": (
        lambda x: torch.nn.functional.max_pool2d(x.to(memory_format=torch.channels_last), 2),
        (1, 3, 4, 4),
    ),
    "complex": (lambda x: (z := torch.complex(x, x.cos()), z.conj(), z.imag, z.t() * 2), (3, 4)),
    "empty": (lambda x: (x[:0] + 1, x[:, 2:2].t() * 2, x.sum(0)), (3, 4)),
    "same twice": (lambda x: (y := x + 1, y, x, x.detach()), (3,)),
    "written": (lambda x: (x.mul_(2), x[1:], x + 1), (3, 4)),
    "windows": (lambda x: ((x + 1).unfold(0, 3, 2), x.as_strided((2, 2), (2, 1), 1)), (7,)),
    "short floats": (lambda x: x.t().to(torch.bfloat16), (3, 4)),
}


def seen(function: Any, given: Any, grad: bool) -> Any:
    """The visible properties of the tensors of a result, and the gradient of what is given."""
    given = given.clone().requires_grad_(grad)
    start = given * 1 if grad else given  # what is written into is no leaf
    found = [one for one in torch.utils._pytree.tree_leaves(function(start)) if isinstance(one, torch.Tensor)]
    memory = [one.untyped_storage().data_ptr() for one in (start, *found)]
    shared = [memory.index(one) for one in memory if one]
    facts = [(one.dtype, one.shape, one.stride(), one.storage_offset(), one.is_conj()) for one in found]
    same = [[one is other for other in found] for one in found]
    values = [one.detach().clone() for one in found]
    if grad:
        sum((one.abs().square().sum().double() for one in found if one.requires_grad), given.sum()).backward()
        values.append(given.grad)
    return (facts, shared, same), values


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_as_in_eager_mode(name: str, grad: bool) -> None:
    function, shape = FUNCTIONS[name]
    if grad and name == "same twice":  # AOTAutograd has its own way with a detached input
        function = lambda x: (y := x + 1, y, x)  # noqa: E731
    x = torch.randn(*shape)
    wanted, values = seen(function, x, grad)
    found, others = seen(torch.compile(function, backend=tilewright), x, grad)
    assert found == wanted
    for one, other in zip(others, values, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["rows of a result", "transposed", "channels last", "viewed channels last", "pieces"])
def test_results_of_symbolic_sizes_lie_as_in_eager_mode(name: str) -> None:
    function, shape = FUNCTIONS[name]
    function = function if "viewed" not in name else lambda x: FUNCTIONS["channels last"][0](x).permute(0, 2, 3, 1)
    compiled = torch.compile(function, backend=tilewright, dynamic=name != "pieces")
    for more in (0, 2):
        x = torch.randn(shape[0], *(extent + more for extent in shape[1:])) if name != "pieces" else torch.randn(shape)
        assert seen(compiled, x, False)[0] == seen(function, x, False)[0]


def test_a_network_in_channels_last() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 5, 2))
    net, x = net.to(memory_format=torch.channels_last), torch.randn(2, 3, 8, 8)
    wanted, found = net(x), torch.compile(net, backend=tilewright)(x)
    assert found.stride() == wanted.stride()
    torch.testing.assert_close(found.permute(0, 2, 3, 1).view(-1, 5), wanted.permute(0, 2, 3, 1).view(-1, 5))
    gradients = [torch.autograd.grad(one.square().sum(), list(net.parameters())) for one in (found, wanted)]
    for one, other in zip(*gradients, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_inputs_with_a_sign_kept_in_a_bit() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64).conj()
    compiled = torch.compile(lambda a, b: (a + 1, b * 2), backend=tilewright)
    for one, other in zip(compiled(z.imag, z), (z.imag + 1, z * 2), strict=True):
        torch.testing.assert_close(one, other)
