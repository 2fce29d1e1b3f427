"""Infinities, NaN, zeros of both signs, tails and ends of types by `torch.compile`, against eager PyTorch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.torch_backend import FallbackWarning

torch = pytest.importorskip("torch", reason="needs the torch package")
nn = torch.nn.functional

INF, NAN = math.inf, math.nan
VALUES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 2.5, -2.5, 5.0, -5.0, 10.0, -10.0, INF, -INF, NAN, 1e-45, -1e-45,
          1e-30, -1e-30, 1e-10, -1e-10, 3e20, -3e20, 3e38, -3e38, 88.0, -88.0, 104.0]  # fmt: skip
X = torch.tensor(VALUES)


def compiled(function: Callable[..., Any], *values: Any) -> Any:
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        return torch.compile(function, backend="tilewright")(*values)


def check(function: Callable[..., Any], *values: Any, roundings: float = 20.0) -> None:
    """As eager up to some roundings; infinities, NaN, zeros and their signs alike."""
    wanted, got = (np.asarray(call(*values)) for call in (function, lambda *given: compiled(function, *given)))
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
        return
    special = ~np.isfinite(wanted) | (wanted == 0)
    np.testing.assert_array_equal(got[special], wanted[special])
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))
    info = np.finfo(wanted.dtype)
    np.testing.assert_allclose(
        got[~special], wanted[~special], rtol=roundings * info.eps, atol=4 * info.smallest_subnormal
    )


UNARY: dict[str, Callable[..., Any]] = {
    **{name: getattr(torch, name) for name in (
        "erfc", "erfinv", "lgamma", "digamma", "sign", "sgn", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
        "atanh", "log2", "log10", "expm1", "exp2", "sinc", "rsqrt", "reciprocal", "frac", "nan_to_num",
        "round", "tan", "sin", "cos", "isinf", "signbit",
    )},
    **{name: getattr(nn, name) for name in ("logsigmoid", "softplus", "hardswish", "elu", "softsign")},
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0, 2.0])),
    "bucketize right": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0, 2.0]), right=True),
    "erfcx": torch.special.erfcx,
    "ndtri": torch.special.ndtri,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    check(UNARY[name], X)


@pytest.mark.parametrize("name", ["atan2", "hypot", "copysign", "xlogy", "logaddexp", "div", "fmax", "eq", "pow"])
def test_functions_of_two_numbers(name: str) -> None:
    function = getattr(torch, name)
    check(lambda x, y: function(x[:, None], y[None, :]), X, X)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_limits_in_place_of_infinities(dtype: str) -> None:
    x = torch.tensor([INF, -INF, NAN, 1.0], dtype=getattr(torch, dtype))
    got = compiled(lambda v: (torch.nan_to_num(v), torch.nan_to_num(v, 7.0, 5.0, -5.0)), x)
    assert torch.equal(got[0], torch.nan_to_num(x)) and torch.equal(got[1], torch.nan_to_num(x, 7.0, 5.0, -5.0))


#: Compiled, and in float64 without the cancellation that eager mode has far below zero.
ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "silu": (nn.silu, nn.silu),
    "mish": (nn.mish, nn.mish),
    "gelu": (nn.gelu, lambda x: x * torch.special.erfc(-x * math.sqrt(0.5)) / 2),
    "gelu tanh": (
        lambda x: nn.gelu(x, approximate="tanh"),
        lambda x: x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    ),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_tails_of_activations(name: str) -> None:
    function, exact = ACTIVATIONS[name]
    x = torch.cat([torch.linspace(-14, 14, 113), torch.tensor([-92.0, -90.0, -100.0, -0.0, 0.0, 40.0, 3e38])])
    got, wanted = compiled(function, x).double(), exact(x.double())
    size = wanted.abs().clamp_min(2.0**-126)
    assert ((got - wanted).abs() / size).max() < 2e-5
    assert torch.equal(torch.signbit(got), torch.signbit(wanted))
    ends = compiled(function, torch.tensor([-INF, INF, NAN]))
    assert torch.isnan(ends).tolist() == [True, False, True] and ends[1] == INF


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_float8_beyond_its_largest(name: str, source: str) -> None:
    numbers = [447.0, 448, 464, 466, 480, 1e3, 5e4, 57344, 6.4e4, INF, -INF, NAN, -1e3, 240, 250, -0.0, 1e-3]
    x = torch.tensor(numbers, dtype=getattr(torch, source))
    got = compiled(lambda v: v.to(getattr(torch, name)).float(), x)
    np.testing.assert_array_equal(got.numpy(), x.to(getattr(torch, name)).float().numpy())


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_integers_of_what_they_cannot_hold(name: str) -> None:
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        pytest.skip("eager PyTorch converts otherwise on other processors")
    numbers = [-1.0, -1.5, 255, 256, 65535, 65536, 2.0**31, 3e9, 2.0**32, 2.0**33, 1e19, 2.0**63, 2.0**64, 1e30, -1e30,
               -3e9 if name != "uint32" else 0, INF if name != "uint32" else 0, -INF, NAN, 7]  # fmt: skip
    x = torch.tensor(numbers * 4)
    wanted = x.to(getattr(torch, name))[:16]
    got = compiled(lambda v: v.to(getattr(torch, name)), x)[:16]
    assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling_where_there_is_no_position(mode: str, padding: str, corners: bool) -> None:
    positions = [[NAN, 0.0], [0.0, NAN], [NAN, NAN], [INF, 0.0], [-INF, 0.2], [0.3, 0.1], [-2.0, 0.5], [0.9, -0.7]]
    grid, image = torch.tensor([[positions]]), torch.arange(1.0, 13).reshape(1, 1, 3, 4)

    def sampled(x: Any, g: Any) -> Any:
        return nn.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=corners)

    np.testing.assert_allclose(compiled(sampled, image, grid), sampled(image, grid), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pool", [lambda x: nn.max_pool2d(x, 3, 2, padding=1), lambda x: nn.adaptive_max_pool2d(x, 2)])
def test_gradients_of_windows_without_a_finite_number(pool: Callable[..., Any]) -> None:
    image = torch.full((1, 1, 5, 5), -INF)
    image[0, 0, 4, 4] = 1.0
    found = []
    for function in (pool, lambda x: compiled(pool, x)):
        leaf = image.clone().requires_grad_()
        function(leaf).backward(torch.arange(1.0, pool(image).numel() + 1).reshape(pool(image).shape))
        found.append(leaf.grad)
    assert torch.equal(*found)
