"""Products of bytes on plain arithmetic: words of four terms where the GPU multiplies those; exact integers."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.backend.gpu.schedule.dispatch import schedule
from tilewright.codegen.build_device import emit_device
from tilewright.target import Target

RNG = np.random.default_rng(5)
PLAIN = "cuda -arch=sm_75 -emulate=1"


def _bytes(shape: tuple[int, ...], dtype: str = "int8") -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def _product(
    shape: tuple[int, int, int], dtypes: tuple[str, str] = ("int8", "int8"), zeros: tuple[int, int] = (0, 0)
) -> list[te.Tensor]:
    """Operands [rows, depth] and [columns, depth], and the product of both less a number each."""
    rows, columns, depth = shape
    a, b = te.placeholder((rows, depth), dtypes[0], "a"), te.placeholder((columns, depth), dtypes[1], "b")
    k = te.reduce_axis((0, depth), "k")
    left, right = (
        te.compute(x.shape, lambda i, j, x=x, zero=zero: x(i, j).astype("int32") - zero, f"wide_{x.name}")
        for x, zero in zip((a, b), zeros, strict=True)
    )
    return [a, b, te.compute((rows, columns), lambda i, j: te.sum(left(i, k) * right(j, k), axis=k), "product")]


def _text(args: list[te.Tensor], spec: str) -> str:
    target = Target(spec)
    source, _ = emit_device([te.lower(schedule([args[-1]], target), args, "kernel", target=target)], target)
    return source


@pytest.mark.parametrize(("arch", "words"), [("sm_60", False), ("sm_61", True), ("sm_75", True), ("sm_80", True)])
def test_words_from_the_first_gpu_that_multiplies_them(arch: str, words: bool) -> None:
    """Of so few terms tensor cores of sm_80 have no product either."""
    assert ("tilewright_dp4a(product" in _text(_product((24, 20, 12)), f"cuda -arch={arch}")) == words


def test_other_languages_multiply_bytes_one_by_one() -> None:
    assert "dp4a" not in _text(_product((24, 20, 40)), "opencl")


def test_the_sum_is_that_of_the_instruction() -> None:
    """Added behind it, each product would take two instructions."""
    assert "tilewright_dp4a(0," not in _text(_product((24, 20, 40)), "cuda -arch=sm_75").split("extern")[1]


def test_a_number_that_is_no_byte_is_subtracted_from_each() -> None:
    assert "dp4a" not in _text(_product((24, 20, 40), zeros=(0, 128)), "cuda -arch=sm_75")


_needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="emulation needs a C++ compiler"
)


@pytest.mark.sample(2)
@_needs_compiler
@pytest.mark.parametrize(
    ("shape", "dtypes", "zeros"),
    [((33, 20, 45), ("int8", "int8"), (3, -128)), ((12, 40, 90), ("int8", "int8"), (-77, 0)),
     ((16, 64, 64), ("uint8", "uint8"), (0, 0)), ((9, 17, 30), ("uint8", "int8"), (200, 7)),
     ((18, 12, 7), ("int8", "uint8"), (-128, 255))],
)  # fmt: skip
def test_products_of_operands_less_numbers(
    shape: tuple[int, int, int], dtypes: tuple[str, str], zeros: tuple[int, int]
) -> None:
    args, target = _product(shape, dtypes, zeros), Target(PLAIN)
    func = te.lower(schedule([args[-1]], target), args, "kernel", target=target)
    assert "tilewright_dp4a" in emit_device([func], target)[0].split("extern")[1]
    x, y = _bytes((shape[0], shape[2]), dtypes[0]), _bytes((shape[1], shape[2]), dtypes[1])
    result = np.zeros(shape[:2], "int32")
    tw.build([func], target)["kernel"](x, y, result)
    np.testing.assert_array_equal(result, (x.astype("int64") - zeros[0]) @ (y.astype("int64") - zeros[1]).T)


@_needs_compiler
@pytest.mark.parametrize(
    ("stride", "padding", "channels", "kernel"), [(1, 1, 3, 3), (2, 0, 8, 3), (2, 2, 5, 5), (1, 0, 16, 1)]
)
@pytest.mark.sample(2)
def test_convolutions(stride: int, padding: int, channels: int, kernel: int) -> None:
    """Windows of whole words of channels and of none, cut by borders and not."""
    x, w = _bytes((1, channels, 11, 9)), _bytes((10, channels, kernel, kernel))
    image, weight = relay.var("x", shape=x.shape, dtype="int8"), relay.var("w", shape=w.shape, dtype="int8")
    body = relay.nn.conv2d(image, weight, strides=(stride, stride), padding=(padding, padding), out_dtype="int32")
    model = tw.compile(relay.IRModule.from_expr(relay.Function([image, weight], body)), target=PLAIN, cache=False)
    assert {kernel.choice["template"] for kernel in model.manifest.kernels if "conv" in kernel.name} == {"product"}
    found = model(x, w)
    found = np.asarray(found[0] if isinstance(found, list | tuple) else found)
    padded = np.pad(x.astype("int64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(found, np.einsum("nchwij,ocij->nohw", windows, w.astype("int64")))
