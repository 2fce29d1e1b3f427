"""Products on tensor cores: instructions of the loops, and results by the emulation against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import build, te, tir
from tilewright.codegen.build_device import emit_device
from tilewright.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.expr import Call
from tilewright.tir.tensor_core import ANNOTATION, Tiling
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect

TARGET = Target("cuda")


def product(
    rows: int, columns: int, depth: int, tiling: Tiling, dtype: str = "float16", left: str = "mk", right: str = "nk"
) -> tir.PrimFunc:
    """C = A @ B + bias, in float32, by blocks of the tiling; `left` and `right` are the orders of their axes."""
    sizes = {"m": rows, "n": columns, "k": depth}
    a, b = (te.placeholder([sizes[x] for x in order], dtype, name) for order, name in ((left, "a"), (right, "b")))
    bias = te.placeholder((columns,), "float32", "bias")
    k, wide = te.reduce_axis((0, depth), "k"), "int32" if "int" in dtype else "float32"

    def body(i: Any, j: Any) -> Any:
        x, y = a(*((i, k) if left == "mk" else (k, i))), b(*((j, k) if right == "nk" else (k, j)))
        return te.sum(x.astype(wide) * y.astype(wide), axis=k)

    sums = te.compute((rows, columns), body, "sums")
    out = te.compute((rows, columns), lambda i, j: sums(i, j).astype("float32") + bias(j), "out")
    s = te.create_schedule(out.op)
    stage, (i, j) = s[out], out.op.axis
    row, i = stage.split(i, factor=tiling.rows)
    column, j = stage.split(j, factor=tiling.columns)
    stage.reorder(row, column, i, j)
    piece, lane = stage.split(stage.fuse(i, j), factor=4)
    _, thread = stage.split(piece, factor=tiling.threads)
    stage.vectorize(lane)
    block = stage.fuse(row, column)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
    s[sums].set_scope("shared")
    s[sums].compute_at(stage, block)
    s[sums].pragma(sums.op.axis[0], ANNOTATION, tiling)
    return te.lower(s, [a, b, bias, out], name="product", target=TARGET)


def calls(func: tir.PrimFunc, name: str) -> list[Call]:
    """The calls of an intrinsic in the loops."""
    return [call for call in collect(func.body, Call) if call.op == name]


SMALL = Tiling(32, 32, 2, 2, 32, 3)


@pytest.mark.parametrize(
    ("sizes", "tiling", "options", "width"),
    [
        ((64, 32, 96), SMALL, {}, 16),
        ((32, 64, 64), SMALL, {"right": "kn"}, 16),
        ((64, 64, 32), Tiling(64, 64, 2, 1, 16, 2), {"left": "km", "right": "kn"}, 16),
        ((40, 50, 72), Tiling(64, 32, 1, 2, 64, 4), {}, 16),  # ragged in all of them
        ((33, 32, 44), SMALL, {}, 8),
        ((20, 32, 35), SMALL, {}, 0),  # rows that are not even aligned to 4 bytes
        ((32, 48, 64), SMALL, {"dtype": "bfloat16"}, 16),
        ((48, 32, 80), Tiling(32, 32, 2, 1, 64, 3), {"dtype": "int8"}, 16),
        ((32, 32, 64), Tiling(32, 32, 1, 1, 32, 2), {"dtype": "uint8"}, 16),
        ((100, 140, 136), Tiling(64, 256, 4, 2, 64, 3, 1, True), {}, 16),
        ((128, 64, 192), Tiling(128, 64, 8, 1, 64, 4, 1, True), {"dtype": "bfloat16"}, 16),
        ((64, 48, 300), Tiling(64, 64, 4, 1, 128, 3, 1, True), {"dtype": "int8"}, 4),
    ],
)
@pytest.mark.sample(4)
def test_products_agree_with_numpy(
    sizes: tuple[int, int, int], tiling: Tiling, options: dict[str, str], width: int
) -> None:
    """In all layouts and types, ragged or not; copies are as wide as memory allows."""
    rows, columns, depth = sizes
    func = product(*sizes, tiling, **options)
    verify(func)
    assert {call.args[2].value for call in calls(func, "ptx_cp_async")} == ({width} if width else set())
    rng = np.random.default_rng(0)
    dtype = options.get("dtype", "float16")
    if "int" in dtype:
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max, (n, depth), endpoint=True).astype(dtype) for n in (rows, columns))
    else:
        kind = __import__("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
        a, b = (rng.standard_normal((n, depth)).astype(kind) for n in (rows, columns))
    bias, out = rng.standard_normal(columns).astype("float32"), np.zeros((rows, columns), "float32")
    given = [x if order[-1] == "k" else np.ascontiguousarray(x.T) for x, order in
             ((a, options.get("left", "mk")), (b, options.get("right", "nk")))]  # fmt: skip
    build(func, "cuda -emulate=1")["product"](*given, bias, out)
    np.testing.assert_allclose(out, a.astype("float32") @ b.astype("float32").T + bias, rtol=1e-5, atol=1e-4)


def test_the_pipeline_has_one_barrier_a_step() -> None:
    """Copies for all stages but one before the loop; one wait and one barrier in it."""
    text, _ = emit_device([product(64, 64, 256, SMALL)], TARGET)
    kernel = text[text.index("product_kernel0") :]
    head, loop = kernel.split("#pragma unroll 1\n")
    loop, tail = loop.split("tilewright_wait_group<0>();")
    assert head.count("tilewright_commit_group") == 2 and head.count("__syncthreads") == 0
    assert loop.count("tilewright_wait_group<1>();") == loop.count("__syncthreads();") == 1
    assert loop.count("tilewright_mma_f16") == 1  # in loops that the compiler writes out
    assert tail.count("__syncthreads();") == 2  # before the sums take the operands' memory, and before they are read


def test_a_missing_wait_shows_in_the_emulation() -> None:
    """Copies arrive no sooner than they are waited for."""
    func = product(32, 32, 64, SMALL)
    text, functions = emit_device([func], TARGET)
    from tilewright.runtime.gpu.emulation import emulated_device

    a = np.ones((32, 64), "float16")
    for remove, expected in ((False, 64.0), (True, None)):
        source = text.replace("tilewright_wait_group<1>();", "") if remove else text
        kernel = emulated_device("cuda").compile(source, ["product_kernel0"])["product_kernel0"]
        out = np.full((32, 32), -1, "float32")
        (launch,) = functions[0].launches
        arrays = {"a": a, "b": a, "bias": np.zeros(32, "float32"), "out": out}
        kernel.launch((1, 1, 1), (128, 1, 1), [arrays[name] for name in launch["args"]], launch["shared_bytes"])
        assert (out == expected).all() if expected else not (out == 64.0).all()


def test_warpgroups_multiply_while_copies_are_asked_for() -> None:
    """The products of a step run until the next step's are queued."""
    text, _ = emit_device([product(128, 64, 256, Tiling(128, 64, 8, 1, 64, 4, 1, True))], TARGET)
    loop = text[text.index("product_kernel0") :].split("#pragma unroll 1\n")[1].split("tilewright_wgmma_wait<0>();")[0]
    order = ["wait_group<1>", "fence_proxy()", "__syncthreads()", "wgmma_fence()", "wgmma_f16_64(", "wgmma_commit()",
             "cp_async_16(", "commit_group()", "wgmma_wait<1>"]  # fmt: skip
    positions = [loop.rindex(word) if word == "commit_group()" else loop.index(word) for word in order]
    assert positions == sorted(positions)


def test_what_is_no_product_is_refused() -> None:
    """With the name of the function and the reason."""
    a = te.placeholder((32, 32), "float16", "a")
    k = te.reduce_axis((0, 32), "k")
    sums = te.compute((32, 32), lambda i, j: te.sum(a(i, k).astype("float32") + a(j, k).astype("float32"), axis=k), "s")
    out = te.compute((32, 32), lambda i, j: sums(i, j) * 2.0, "out")
    s = te.create_schedule(out.op)
    block, _ = s[out].split(out.op.axis[0], factor=32)
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[sums].set_scope("shared")
    s[sums].compute_at(s[out], block)
    s[sums].pragma(sums.op.axis[0], ANNOTATION, SMALL)
    with pytest.raises(ScheduleError, match="f: a loop nest annotated 'tensor_core' adds no products"):
        te.lower(s, [a, out], name="f", target=TARGET)


def test_tiles_that_warps_cannot_share_are_refused() -> None:
    """A warp takes whole instructions."""
    with pytest.raises(ScheduleError, match="cannot be shared out as 32x32 by 4x2 warps"):
        product(32, 32, 32, Tiling(32, 32, 4, 2, 32, 2))
