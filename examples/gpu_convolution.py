"""A convolution on a GPU: shared memory that all threads of a block fill, and virtual threads.

    python examples/gpu_convolution.py                                OpenCL, and CUDA emulated on this processor
    python examples/gpu_convolution.py --target cuda --time           on an NVIDIA GPU, with its speed
    python examples/gpu_convolution.py --shape 64 128 56 56           channels in, channels out, rows, columns
    python examples/gpu_convolution.py --source                       prints the kernel's text

A block of 8 x 8 threads computes 32 channels of 32 neighbouring pixels. It goes through the input channels four at a
time: all threads together bring these channels' pixels and weights to shared memory, then each adds up its own 4 x 4
results. Those 4 x 4 are spread: four virtual threads take pixels 8 apart, so that neighbouring threads read neighbours
in shared memory, which do not collide in its banks; two take channels 16 apart.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from tilewright import build, te, tir

TILE, THREADS, CHANNELS = 32, 8, 4


def convolution(channels: int, filters: int, rows: int, columns: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """A 3 x 3 convolution with a border of zeros: `image` [channels, rows, columns] to [filters, rows, columns]."""
    image = te.placeholder((channels, rows, columns), name="image")
    weight = te.placeholder((filters, channels, 3, 3), name="weight")

    def pixel(c: Any, y: Any, x: Any) -> Any:
        inside = tir.all(y >= 1, y <= rows, x >= 1, x <= columns)
        return tir.if_then_else(inside, image(c, y - 1, x - 1), tir.const(0.0))

    padded = te.compute((channels, rows + 2, columns + 2), pixel, name="padded")
    axes = [te.reduce_axis((0, n), name) for n, name in ((channels, "c"), (3, "dy"), (3, "dx"))]
    c, dy, dx = axes
    result = te.compute(
        (filters, rows, columns),
        lambda f, y, x: te.sum(padded(c, y + dy, x + dx) * weight(f, c, dy, dx), axis=axes),
        name="result",
    )
    s = te.create_schedule(result)
    s[padded].compute_inline()
    loads = [s.cache_read(padded, "shared", [result]), s.cache_read(weight, "shared", [result])]
    sums = s.cache_write(result, "local")
    thread_x, thread_y = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    inner = bind_tiles(s[result], thread_x, thread_y)

    s[sums].compute_at(s[result], inner)
    own_f, own_y, own_x = s[sums].op.axis
    c, dy, dx = s[sums].op.reduce_axis
    group, c = s[sums].split(c, factor=CHANNELS)
    s[sums].reorder(group, c, dy, dx, own_f, own_y, own_x)
    for load in loads:
        s[load].compute_at(s[sums], group)
        element, x = s[load].split(s[load].fuse(*s[load].op.axis), factor=THREADS)
        _, y = s[load].split(element, factor=THREADS)
        s[load].bind(x, thread_x)
        s[load].bind(y, thread_y)
    return s, [image, weight, result]


def bind_tiles(stage: te.Stage, thread_x: te.IterVar, thread_y: te.IterVar) -> te.IterVar:
    """Cut the result into blocks, virtual threads and threads; returns the axis of the innermost of them."""
    f, y, x = stage.op.axis
    block_f, f = stage.split(f, factor=TILE)
    block_x, x = stage.split(x, factor=TILE)
    virtual_f, f = stage.split(f, nparts=2)
    virtual_x, x = stage.split(x, nparts=4)
    thread_f, f = stage.split(f, nparts=THREADS)
    thread_x_loop, x = stage.split(x, nparts=THREADS)
    stage.reorder(y, block_f, block_x, virtual_f, virtual_x, thread_f, thread_x_loop, f, x)
    for loop, tag in ((y, "blockIdx.z"), (block_f, "blockIdx.y"), (block_x, "blockIdx.x")):
        stage.bind(loop, te.thread_axis(tag))
    for loop in (virtual_f, virtual_x):
        stage.bind(loop, te.thread_axis("vthread"))
    stage.bind(thread_f, thread_y)
    stage.bind(thread_x_loop, thread_x)
    return thread_x_loop


def expected(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution in NumPy."""
    _, rows, columns = image.shape
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    parts = [
        np.einsum("fc,cyx->fyx", weight[:, :, dy, dx], padded[:, dy : dy + rows, dx : dx + columns])
        for dy in range(3)
        for dx in range(3)
    ]
    return np.sum(parts, axis=0)


def main() -> None:
    """Builds for each target, runs, compares with NumPy."""
    parser = argparse.ArgumentParser(description="A convolution with shared memory and virtual threads.")
    parser.add_argument("--target", action="append", help="may be given several times")
    parser.add_argument("--shape", type=int, nargs=4, default=(16, 64, 6, 40), metavar=("C", "F", "H", "W"))
    parser.add_argument("--source", action="store_true", help="print the kernel")
    parser.add_argument("--time", action="store_true", help="measure")
    given = parser.parse_args()
    channels, filters, rows, columns = given.shape
    func = te.lower(*convolution(channels, filters, rows, columns), name="convolution")
    rng = np.random.default_rng(0)
    image = rng.standard_normal((channels, rows, columns)).astype("float32")
    weight = rng.standard_normal((filters, channels, 3, 3)).astype("float32")
    for target in given.target or ["opencl", "cuda -emulate=1"]:
        module = build(func, target)
        if given.source:
            print(module.source)
        result = np.zeros((filters, rows, columns), "float32")
        module["convolution"](image, weight, result)
        np.testing.assert_allclose(result, expected(image, weight), rtol=1e-4, atol=1e-4)
        print(f"{channels} to {filters} channels of {rows} x {columns} on {target} agree with NumPy")
        if given.time:
            arrays = [module.array(x) for x in (image, weight, result)]
            seconds = min(module["convolution"].time(*arrays))
            print(f"{seconds * 1e3:.3f} ms, {18 * image.size * filters / seconds / 1e9:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
