"""Attention as one kernel: numbers beside NumPy in float64, on tensor cores (emulated) and by plain tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tilewright import build, relay, te
from tilewright.backend import backend_of
from tilewright.backend.gpu.schedule.attention_cost import has_attention_kernel
from tilewright.backend.gpu.schedule.dispatch import choice_of, space_of
from tilewright.codegen.build_device import emit_device
from tilewright.driver.optimize import optimize
from tilewright.errors import EnvironmentError_
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.views import is_reshape
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.topi import nn
from tilewright.topi.reference import nn as reference

EMULATED = "cuda -emulate=1 -arch=sm_80"

Sizes = tuple[int, int, int, int, int, int, int]


def tensors(sizes: Sizes, dtype: str, mask: tuple[int, ...] | None = None, rows: Any = None) -> list[te.Tensor]:
    """Queries, keys, values and perhaps a mask of (batch, heads, heads of keys, rows, keys, depth, width)."""
    b, h, g, m, n, d, e = sizes
    shapes = {"q": (b, h, rows or m, d), "k": (b, g, n, d), "v": (b, g, n, e)}
    found = [te.placeholder(shape, dtype, name) for name, shape in shapes.items()]
    return found if mask is None else [*found, te.placeholder(mask, dtype, "mask")]


def lowered(inputs: list[te.Tensor], out: te.Tensor, target: str, config: Mapping[str, int] | None = None) -> PrimFunc:
    """The function of the configuration that ranks first, or first of those with these values."""
    backend, space = backend_of(Target(target)), space_of([out], Target(target))
    assert space is not None
    chosen = next(c for _, c in space.ranked if all(c[k] == v for k, v in (config or {}).items()))
    *_, (_, func) = backend.lower_stages(backend.schedule([out], chosen), [*inputs, out], "f")
    return func


def compare(
    sizes: Sizes, dtype: str = "float16", target: str = EMULATED, config: Mapping[str, int] | None = None,
    mask: tuple[int, ...] | None = None, causal: bool = False, out_layout: str = "BHSD", scale: float | None = None,
) -> None:  # fmt: skip
    """The kernel's numbers and those of NumPy."""
    inputs, rng = tensors(sizes, dtype, mask), np.random.default_rng(0)
    scale = sizes[5] ** -0.5 if scale is None else scale
    out = nn.attention(*inputs[:3], inputs[3] if mask else None, scale, causal, out_layout)
    assert choice_of([out], Target(target)).template == "attention"
    values = [rng.standard_normal([int(n.value) for n in t.shape]).astype(dtype) for t in inputs]
    found = np.zeros([int(n.value) for n in out.shape], dtype)
    build(lowered(inputs, out, target, config), target)["f"](*values, found)
    q, k, v, *masks = (x.astype("float64") for x in values)
    wanted = reference.attention(q, k, v, masks[0] if masks else None, scale, causal, out_layout)
    rounding = {"float16": 2e-3, "float32": 4e-6}[dtype]
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=rounding, atol=rounding)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1, 2, 2, 128, 128, 64, 64), {"mask": (1, 1, 1, 128)}),
        ((1, 1, 1, 197, 197, 64, 64), {"out_layout": "BSHD"}),
        ((2, 8, 8, 64, 64, 32, 32), {"causal": True}),
        ((1, 2, 2, 33, 70, 80, 96), {"mask": (1, 2, 33, 70)}),
        ((1, 2, 2, 40, 50, 20, 24), {"causal": True, "scale": -0.1}),
    ],
)
@pytest.mark.sample(2)
def test_tensor_cores_agree_with_numpy(sizes: Sizes, options: dict[str, Any]) -> None:
    """With masks, causal, ragged sizes, and warps that share rows or keys."""
    compare(sizes, **options)


def test_a_cache_of_any_length_is_read_by_one_query() -> None:
    """One function for all lengths; queries of heads that share keys are stacked."""
    columns = te.size_var("n")
    shapes = {"q": (1, 8, 1, 64), "k": (1, 4, columns, 64), "v": (1, 4, columns, 64)}
    inputs = [te.placeholder(shape, "float16", name) for name, shape in shapes.items()]
    module = build(lowered(inputs, nn.attention(*inputs, scale=0.125), EMULATED), EMULATED)
    rng = np.random.default_rng(2)
    for keys in (1, 2, 16, 63, 64, 100, 129, 255):
        q, k, v = (rng.standard_normal((1, h, n, 64)).astype("float16") for h, n in ((8, 1), (4, keys), (4, keys)))
        found = np.zeros(q.shape, "float16")
        module["f"](q, k, v, found)
        wanted = reference.attention(*(x.astype("float64") for x in (q, k, v)), scale=0.125)
        np.testing.assert_allclose(found.astype("float64"), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_keys_are_divided_among_blocks(dtype: str) -> None:
    """Parts that are added up by a second kernel, with heads that share keys."""
    compare((1, 4, 2, 2, 300, 32, 40), dtype, config={"parts": 2})


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1, 2, 2, 37, 50, 64, 64), {"mask": (1, 1, 37, 50)}),
        ((1, 2, 1, 40, 40, 20, 12), {"causal": True, "out_layout": "BSHD"}),
    ],
)
def test_plain_tiles_agree_with_numpy(sizes: Sizes, options: dict[str, Any]) -> None:
    """float32, which tensor cores round."""
    compare(sizes, "float32", **options)


def test_lengths_may_be_symbolic() -> None:
    """One function for any number of rows and keys."""
    rows, columns = te.size_var("m"), te.size_var("n")
    shapes = {"q": (1, 2, rows, 32), "k": (1, 2, columns, 32), "v": (1, 2, columns, 32)}
    inputs = [te.placeholder(shape, "float16", name) for name, shape in shapes.items()]
    module = build(lowered(inputs, out := nn.attention(*inputs), EMULATED), EMULATED)
    assert len(out.shape) == 4
    rng = np.random.default_rng(1)
    for m, n in ((5, 70), (70, 33)):
        q, k, v = (rng.standard_normal((1, 2, size, 32)).astype("float16") / 2 for size in (m, n, n))
        found = np.zeros(q.shape, "float16")
        module["f"](q, k, v, found)
        wanted = reference.attention(*(x.astype("float64") for x in (q, k, v)))
        np.testing.assert_allclose(found.astype("float64"), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_instructions_of_the_main_loop(arch: str) -> None:
    """Products on tensor cores, asynchronous copies, and no memory of a thread's own."""
    inputs = tensors((1, 12, 12, 128, 128, 64, 64), "float16")
    target = f"cuda -arch={arch}"
    source, _ = emit_device([lowered(inputs, nn.attention(*inputs), target)], Target(target))
    assert "tilewright_mma_f16" in source and "tilewright_cp_async_16" in source
    assert "tilewright_ldmatrix_transposed" in source and "tilewright_pack_f16" in source
    try:
        assert compile_cubin(source, arch)
    except EnvironmentError_ as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("keys", "fits"), [(197, False), (256, True)])
def test_keys_that_steps_do_not_divide_need_registers_for_addresses(keys: int, fits: bool) -> None:
    """ViT's 197 keys by this block spilled eight bytes on sm_80."""
    target = Target("cuda -arch=sm_80")
    space = space_of([nn.attention(*tensors((1, 12, 12, keys, keys, 64, 64), "float16"))], target)
    assert space is not None
    block = {"warps_rows": 2, "row_tiles": 1, "warps_keys": 4, "keys": 32}
    assert any(all(config[k] == v for k, v in block.items()) for _, config in space.ranked) == fits


def test_what_has_no_room_is_left_as_it_was() -> None:
    """A block of WebGPU has 16 KiB of shared memory."""
    assert has_attention_kernel(64, 64, "float32", Target("webgpu"))
    assert not has_attention_kernel(256, 256, "float32", Target("webgpu"))
    assert not has_attention_kernel(512, 64, "float16", Target("cuda"))
    assert not has_attention_kernel(64, 64, "int8", Target("cuda"))


def test_transposes_and_scales_of_a_network_join_the_kernel() -> None:
    """Heads that are split off one product, and 16-bit casts between, as exported networks have them."""
    x = relay.var("x", shape=(1, 24, 3 * 64), dtype="float16")
    whole = relay.transpose(relay.reshape(x, (1, 24, 3, 2, 32)), axes=(2, 0, 3, 1, 4))
    q, k, v = (relay.reshape(relay.strided_slice(whole, [i], [i + 1], axes=[0]), (2, 24, 32)) for i in range(3))
    half = relay.const(np.float16(0.5))
    keys = relay.multiply(relay.transpose(k, axes=(0, 2, 1)), half)
    scores = relay.nn.batch_matmul(relay.multiply(q, half), keys, transpose_b=False, out_dtype="float32")
    shares = relay.cast(relay.nn.softmax(scores), "float16")
    made = relay.cast(relay.nn.batch_matmul(shares, v, transpose_b=False, out_dtype="float32"), "float16")
    out = relay.reshape(relay.transpose(relay.reshape(made, (1, 2, 24, 32)), axes=(0, 2, 1, 3)), (1, 24, 64))
    mod = optimize(relay.IRModule.from_expr(relay.Function([x], out)), Target("cuda"))
    (attention,) = [call for kernel in calls(mod["main"].body) for call in calls(kernel.op.body)
                    if getattr(call.op, "name", "") == "nn.attention"]  # fmt: skip
    assert attention.attrs["scale"] == 0.25 and attention.attrs["out_layout"] == "BSHD"
    kernels = [call.op for call in calls(mod["main"].body) if isinstance(call.op, Function)]
    assert sum(any(not is_reshape(call) for call in calls(kernel.body)) for kernel in kernels) == 1
