"""A matrix product on tensor cores: float16 in, float32 out, in tiles of 16 x 16 x 16 that a warp multiplies at once.

    python examples/gpu_tensor_core_gemm.py                      emulated on this processor, checked against NumPy
    python examples/gpu_tensor_core_gemm.py --target cuda        on an NVIDIA GPU (compute capability 7.0 or newer)
    python examples/gpu_tensor_core_gemm.py --arch sm_90         compiled for that architecture; needs no GPU
    python examples/gpu_tensor_core_gemm.py --template           by the template that whole models use (mma.sync)

A block of four warps computes 64 x 64 of the result, each warp 32 x 32 as 2 x 2 fragments. All threads bring tiles to
shared memory; the warps load fragments from there.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from tilewright import build, te, tir, topi
from tilewright.backend.gpu.schedule.tensor_core import tensor_core_gemm
from tilewright.codegen.build_device import emit_device
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import Target

FRAGMENT, WARP_TILE, BLOCK_TILE, DEPTH = 16, 32, 64, 32


def gemm(n: int, m: int, k: int) -> tir.PrimFunc:
    """C[n, m] = A[n, k] @ B[k, m], lowered; n and m are multiples of 64, k of 32."""
    a, b = te.placeholder((n, k), "float16", name="A"), te.placeholder((k, m), "float16", name="B")
    axis = te.reduce_axis((0, k), "k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(a(i, axis).astype("float32") * b(axis, j).astype("float32"), axis=axis)

    c = te.compute((n, m), product, name="C")
    s = te.create_schedule(c)
    a_shared, b_shared = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    a_fragment = s.cache_read(a_shared, "wmma.matrix_a", [c])
    b_fragment = s.cache_read(b_shared, "wmma.matrix_b", [c])
    sums = s.cache_write(c, "wmma.accumulator")

    rows, columns = c.op.axis
    block_y, rows = s[c].split(rows, factor=BLOCK_TILE)
    block_x, columns = s[c].split(columns, factor=BLOCK_TILE)
    warp_y, rows = s[c].split(rows, factor=WARP_TILE)
    warp_x, columns = s[c].split(columns, factor=WARP_TILE)
    rows, i = s[c].split(rows, factor=FRAGMENT)
    columns, j = s[c].split(columns, factor=FRAGMENT)
    s[c].reorder(block_y, block_x, warp_y, warp_x, rows, columns, i, j)
    tags = ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y")
    threads = {tag: te.thread_axis(tag) for tag in tags}
    for loop, tag in zip((block_y, block_x, warp_y, warp_x), tags, strict=True):
        s[c].bind(loop, threads[tag])
    s[c].tensorize(i, te.wmma.store())

    s[sums].compute_at(s[c], warp_x)
    rows, i = s[sums].split(s[sums].op.axis[0], factor=FRAGMENT)
    columns, j = s[sums].split(s[sums].op.axis[1], factor=FRAGMENT)
    k_block, k_inner = s[sums].split(s[sums].op.reduce_axis[0], factor=DEPTH)
    k_step, k_inner = s[sums].split(k_inner, factor=FRAGMENT)
    s[sums].reorder(k_block, k_step, rows, columns, i, j, k_inner)
    s[sums].tensorize(i, te.wmma.multiply())

    for stage, scope in ((a_fragment, "wmma.matrix_a"), (b_fragment, "wmma.matrix_b")):
        s[stage].compute_at(s[sums], k_step)
        rows, i = s[stage].split(s[stage].op.axis[0], factor=FRAGMENT)
        columns, j = s[stage].split(s[stage].op.axis[1], factor=FRAGMENT)
        s[stage].reorder(rows, columns, i, j)
        s[stage].tensorize(i, te.wmma.load(scope))
    for stage in (a_shared, b_shared):
        s[stage].compute_at(s[sums], k_block)
        rest = s[stage].fuse(*s[stage].op.axis)
        rest, lane = s[stage].split(rest, factor=32)
        rest, y = s[stage].split(rest, factor=BLOCK_TILE // WARP_TILE)
        rest, z = s[stage].split(rest, factor=BLOCK_TILE // WARP_TILE)
        s[stage].bind(lane, te.thread_axis("threadIdx.x"))
        s[stage].bind(y, threads["threadIdx.y"])
        s[stage].bind(z, threads["threadIdx.z"])
    return te.lower(s, [a, b, c], name="gemm")


def templated(n: int, m: int, k: int, target: Target) -> tir.PrimFunc:
    """The same product, of any size, by the compiler's template: tiles, warps and stages chosen for the target."""
    a, b = te.placeholder((n, k), "float16", name="A"), te.placeholder((k, m), "float16", name="B")
    c = topi.nn.matmul(a, b, out_dtype="float32")
    return te.lower(tensor_core_gemm(c, target), [a, b, c], name="gemm", target=target)


def main() -> None:
    """Compiles for an architecture, or runs and compares with NumPy."""
    parser = argparse.ArgumentParser(description="A matrix product on tensor cores.")
    parser.add_argument("--target", default="cuda -emulate=1")
    parser.add_argument("--arch", default="", help="compile for this architecture, such as sm_80, and stop")
    parser.add_argument("--size", type=int, nargs=3, default=(128, 64, 96), metavar=("N", "M", "K"))
    parser.add_argument("--template", action="store_true", help="schedule by the template that whole models use")
    given = parser.parse_args()
    n, m, k = given.size
    target = Target(f"cuda -arch={given.arch}" if given.arch else given.target)
    func = templated(n, m, k, target) if given.template else gemm(n, m, k)
    if given.arch:
        text, _ = emit_device([func], target)
        print(f"{len(compile_cubin(text, given.arch))} bytes of machine code for {given.arch}")
        return
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((n, k)).astype("float16"), rng.standard_normal((k, m)).astype("float16")
    result = np.zeros((n, m), "float32")
    module = build(func, given.target)
    print(*[line.strip() for line in module.source.splitlines() if "wmma::" in line or "_mma_" in line], sep="\n")
    module["gemm"](a, b, result)
    np.testing.assert_allclose(result, a.astype("float32") @ b.astype("float32"), rtol=1e-4, atol=1e-4)
    print(f"{n} x {m} x {k} on {given.target} agrees with NumPy")


if __name__ == "__main__":
    main()
