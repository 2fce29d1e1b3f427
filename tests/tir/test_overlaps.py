"""Bytes that a result may share with an input: a function run over its own input computes the same, and no closer."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.target import Target
from tilewright.te import lower
from tilewright.tir.evaluate import interpret
from tilewright.tir.overlaps import overlaps
from tilewright.tir.stmt import PrimFunc

RNG = np.random.default_rng(8)


def _func(data: te.Tensor, out: te.Tensor, schedule: te.Schedule | None = None) -> PrimFunc:
    s = schedule or te.create_schedule(out.op)
    return lower(s, [data, out], name="f", target=Target("c -mcpu=cortex-m4"))


def _distance(func: PrimFunc) -> int | None:
    return overlaps(func, [0], 1, 1).get((0, 0))


def _over(func: PrimFunc, x: np.ndarray, nbytes: int, dtype: str, distance: int) -> np.ndarray:
    """The result where it begins `distance` bytes before the input."""
    size = 4 * (x.nbytes + nbytes)
    memory = np.zeros(size, np.uint8)
    start = size // 2
    data = memory[start : start + x.nbytes].view(x.dtype)
    data[...] = x.ravel()
    out = memory[start - distance : start - distance + nbytes].view(dtype)
    scratch = [
        np.zeros(max(func.attrs[key], 1), np.uint8)[: func.attrs[key]] for key in _SCRATCH if len(func.params) > 2
    ]
    interpret(func, data, out, *scratch)
    return out.copy()


_SCRATCH = ("workspace_bytes", "worker_workspace_bytes")


def _check(func: PrimFunc, x: np.ndarray, nbytes: int, dtype: str = "int8") -> int:
    """The distance, which is enough."""
    distance = _distance(func)
    assert distance is not None
    alone = _over(func, x, nbytes, dtype, nbytes)
    step = np.dtype(dtype).itemsize
    distance = -(-distance // step) * step
    assert np.array_equal(_over(func, x, nbytes, dtype, distance), alone)
    return distance


def _bytes(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def test_elementwise_results_take_the_memory_of_their_input_and_may_not_begin_behind_it() -> None:
    x = te.placeholder((50,), "int8", name="x")
    func = _func(x, te.compute((50,), lambda i: x(i) + tir.const(1, "int8"), name="y"))
    values = _bytes(50)
    assert _check(func, values, 50) == 0
    assert not np.array_equal(_over(func, values, 50, "int8", -1), _over(func, values, 50, "int8", 50))


def test_windows_that_lie_ahead_leave_room_and_those_behind_need_it() -> None:
    x = te.placeholder((60,), "int8", name="x")
    ahead = _func(x, te.compute((50,), lambda i: x(i) + x(i + 9), name="y"))
    behind = _func(x, te.compute((50,), lambda i: x(i + 3) + x(i), name="y"))
    values = _bytes(60)
    assert _check(ahead, values, 50) == 0
    assert _check(behind, values, 50) == 0
    both = _func(x, te.compute((50,), lambda i: x(tir.maximum(i - 5, 0)) + x(i), name="y"))
    assert _check(both, values, 50) == 5
    assert not np.array_equal(_over(both, values, 50, "int8", 4), _over(both, values, 50, "int8", 50))


def test_wider_results_begin_before_by_what_they_are_longer() -> None:
    x = te.placeholder((40,), "int8", name="x")
    func = _func(x, te.compute((40,), lambda i: x(i).astype("int32"), name="y"))
    assert _check(func, _bytes(40), 160, "int32") in range(117, 121)


def test_reversed_reads_share_nothing() -> None:
    x = te.placeholder((40,), "int8", name="x")
    assert _distance(_func(x, te.compute((40,), lambda i: x(39 - i), name="y"))) in (None, 39, 40)


def test_many_iterations_become_blocks_whose_distance_is_no_smaller() -> None:
    x = te.placeholder((100_000,), "int8", name="x")
    distance = _distance(_func(x, te.compute((100_000,), lambda i: x(i) + tir.const(1, "int8"), name="y")))
    assert distance is not None and 0 <= distance <= 64


@pytest.mark.parametrize("seed", range(12))
def test_random_windows_over_padded_images_computed_by_rows(seed: int) -> None:
    """The image's rows are padded for each row of the result or all before it, in tiles of random width."""
    rng = np.random.default_rng(seed)
    h, w, c = (int(rng.integers(2, 7)) for _ in range(3))
    kernel, stride, before = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(0, 2))
    x = te.placeholder((h, w, c), "int8", name="x")
    oh, ow = ((size + 2 * before - kernel) // stride + 1 for size in (h, w))
    if min(oh, ow) < 1:
        return

    def body(i: tir.Var, j: tir.Var, f: tir.Var) -> tir.Expr:
        inside = tir.all(i >= before, i < h + before, j >= before, j < w + before)
        return tir.if_then_else(inside, x(i - before, j - before, f), tir.const(-7, "int8"))

    padded = te.compute((h + 2 * before, w + 2 * before, c), body, name="padded")
    ry, rx = te.reduce_axis((0, kernel), name="ry"), te.reduce_axis((0, kernel), name="rx")
    out = te.compute(
        (oh, ow, c), lambda i, j, f: te.sum(padded(i * stride + ry, j * stride + rx, f), axis=[ry, rx]), name="out"
    )
    s = te.create_schedule(out.op)
    tile, _ = s[out].split(out.op.axis[1], factor=int(rng.integers(1, 4)))
    at = [None, out.op.axis[0], tile][int(rng.integers(3))]
    if at is not None:
        s[padded].compute_at(s[out], at)
    func = _func(x, out, s)
    distance = _distance(func)
    if distance is not None:
        _check(func, _bytes(h, w, c), oh * ow * c)
