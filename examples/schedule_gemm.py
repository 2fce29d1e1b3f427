"""Write a kernel: a matrix product scheduled step by step, each step's loops printed, checked and timed.

    python examples/schedule_gemm.py [--size 512] [--stages STEP] [--pictures FOLDER]

What is computed never changes; each step only says how. `--stages 4` prints what every pass makes of step 4, down to
LLVM IR. `--pictures FOLDER` draws the schedule of each step: its stages, its loops, and how often each buffer is read
and written. The last step keeps a tile of the result in registers and streams one packed panel of the right matrix by
it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tilewright import build, te
from tilewright.codegen.llvm import emit
from tilewright.target import Target

Step = tuple[te.Schedule, list[te.Tensor]]


def product(size: int) -> list[te.Tensor]:
    """C[i, j] = sum over k of A[i, k] B[k, j]."""
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    return [a, b, te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def as_written(size: int, target: Target) -> Step:
    """1. The loops as the expression says: for each element of C one sum."""
    tensors = product(size)
    return te.create_schedule(tensors[-1]), tensors


def vectorized(size: int, target: Target) -> Step:
    """2. The sum outside, neighbours of a row inside: whole vectors, but C goes to memory and back for every k."""
    tensors = product(size)
    c = tensors[-1]
    s = te.create_schedule(c)
    i, j = s[c].op.axis
    outer, lane = s[c].split(j, factor=target.vector_bits // 32)
    s[c].reorder(i, outer, *s[c].op.reduce_axis, lane)
    s[c].vectorize(lane)
    return s, tensors


def in_registers(size: int, target: Target) -> Step:
    """3. A tile of C is summed up in registers and written once; each vector of B serves all rows of the tile."""
    tensors = product(size)
    c = tensors[-1]
    s = te.create_schedule(c)
    tile_registers(s, c, target)
    return s, tensors


def packed(size: int, target: Target) -> Step:
    """4. B is first packed into panels as wide as the tile, so that the inner loop reads memory in order."""
    a, b, _ = product(size)
    _, columns = tile_shape(target)
    panels = te.compute((size // columns, size, columns), lambda p, k, j: b[k, p * columns + j], name="panels")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * panels[j // columns, k, j % columns], axis=k), name="C")
    s = te.create_schedule(c)
    s[panels].vectorize(s[panels].split(s[panels].op.axis[2], factor=target.vector_bits // 32)[1])
    tile_registers(s, c, target)
    return s, [a, b, c]


def parallel(size: int, target: Target) -> Step:
    """5. Every worker takes its share of the panels."""
    s, tensors = packed(size, target)
    c = tensors[-1]
    panels = next(stage for stage in s.stages if stage.op.name == "panels")
    panels.parallel(panels.op.axis[0])
    s[c].parallel(s[c].leaf_iter_vars[0])
    return s, tensors


def tile_shape(target: Target) -> tuple[int, int]:
    """Rows and columns of a tile whose accumulators fill most of the vector registers."""
    vectors = 2 if target.vector_registers >= 32 else 1
    return 8, vectors * target.vector_bits // 32


def tile_registers(s: te.Schedule, c: te.Tensor, target: Target) -> None:
    """Sum up tiles of `c` in a local buffer of vectors: columns of tiles outermost, then rows, then k."""
    rows, columns = tile_shape(target)
    local = s.cache_write(c, "local")
    i, j, row, column = s[c].tile(*s[c].op.axis, x_factor=rows, y_factor=columns)
    s[c].reorder(j, i, row, column)
    s[c].vectorize(s[c].split(column, factor=target.vector_bits // 32)[1])
    s[local].compute_at(s[c], i)
    row, column = s[local].op.axis
    outer, lane = s[local].split(column, factor=target.vector_bits // 32)
    s[local].reorder(*s[local].op.reduce_axis, row, outer, lane)
    s[local].unroll(row)
    s[local].unroll(outer)
    s[local].vectorize(lane)


STEPS: tuple[Callable[[int, Target], Step], ...] = (as_written, vectorized, in_registers, packed, parallel)


def show_stages(step: Callable[[int, Target], Step], size: int, target: Target) -> None:
    """Print the function after each pass, and its LLVM IR."""
    schedule, tensors = step(size, target)
    for name, func in te.lower_stages(schedule, tensors, step.__name__):
        print(f"\n# after {name}\n{func}")
    print(f"\n# LLVM IR\n{emit([func], target)}")


def draw_steps(folder: Path, size: int, target: Target) -> None:
    """Write a picture of each step's schedule to `folder`, and a page of all."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for number, step in enumerate(STEPS, 1):
        schedule, tensors = step(size, target)
        pictures[str(step.__doc__)] = picture = te.schedule_picture(schedule, tensors, step.__name__)
        (folder / f"{number}_{step.__name__}.svg").write_text(picture, encoding="utf-8")
    page = folder / "steps.html"
    page.write_text(te.picture_page(pictures, "A matrix product, step by step"), encoding="utf-8")
    print(f"{len(pictures)} pictures, all on {page}")


def main() -> None:
    """Build, check and time every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="rows and columns, a multiple of 64")
    parser.add_argument("--stages", type=int, choices=range(1, len(STEPS) + 1), help="print every stage of this step")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the schedule of every step")
    args = parser.parse_args()
    if args.size % 64 or args.size < 64:
        parser.error("--size must be a multiple of 64")
    target = Target("cpu")
    if args.stages:
        show_stages(STEPS[args.stages - 1], args.size, target)
        return
    if args.pictures:
        draw_steps(args.pictures, args.size, target)
        return
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((args.size, args.size), dtype=np.float32) for _ in range(2))
    expected = a @ b
    for step in STEPS:
        schedule, tensors = step(args.size, target)
        stages = dict(te.lower_stages(schedule, tensors, step.__name__))
        kernel = build(list(stages.values())[-1], target)[step.__name__]
        result = np.empty_like(expected)
        seconds = best_time(kernel, a, b, result)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
        print(f"\n{step.__doc__}\n\n{stages['schedule_to_tir']}")
        print(f"-> {seconds * 1e3:.2f} ms, {2 * args.size**3 / seconds / 1e9:.1f} GFLOP/s")


def best_time(kernel: Callable[..., object], *args: np.ndarray, rounds: int = 20) -> float:
    """Seconds of the fastest of a few runs of `kernel(*args)`."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        kernel(*args)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
