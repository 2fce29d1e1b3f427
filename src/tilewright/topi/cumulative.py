"""Running sums and products along an axis, each made of the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.ir_builder import IRBuilder
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.loops import for_each
from tilewright.topi.rows import Rows
from tilewright.topi.util import accumulator_dtype, normalize_axis

Combine = Callable[[Any, Any], Any]


def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums along `axis`, without the element itself if `exclusive`, from the end if `reverse`."""
    return _running(x, x.dtype, axis, tir.add, 0, exclusive, reverse)


def cumprod(x: Tensor, axis: int = 0, exclusive: bool = False, dtype: str = "") -> Tensor:
    """Running products along `axis` in `dtype` (default: that of x), without the element itself if `exclusive`."""
    return _running(x, dtype or x.dtype, axis, tir.multiply, 1, exclusive, False)


def _running(
    x: Tensor, dtype: str, axis: int, combine: Combine, neutral: int, exclusive: bool, reverse: bool
) -> Tensor:
    rows = Rows(x.shape, normalize_axis(axis, x.ndim))
    wide = accumulator_dtype(str(dtype))

    def element(value: Any) -> Any:
        return value.astype(wide)

    def along_rows(ib: IRBuilder, source: Any, result: Any) -> None:
        """One row after the other, the running value in a register."""
        with ib.for_range(0, rows.count, name="row", kind="parallel") as row:
            place = rows.places(ib, row)
            total = ib.allocate(wide, 1, "total", scope="local")
            total[0] = tir.const(neutral, wide)
            with ib.for_range(0, rows.size, name="k") as k:
                at = place(rows.size - 1 - k if reverse else k)
                value = ib.let("value", element(source[at]))
                if exclusive:
                    result[at] = total[0].astype(dtype)
                total[0] = combine(total[0], value)
                if not exclusive:
                    result[at] = total[0].astype(dtype)

    def across_rows(ib: IRBuilder, source: Any, result: Any) -> None:
        """All rows that lie side by side together, the running values in the result."""
        before, behind = x.shape[: rows.axis], x.shape[rows.axis + 1 :]
        with for_each(ib, before, kind="parallel") as outer, ib.for_range(0, rows.size, name="k") as k:
            at, last = (rows.size - 1 - k, rows.size - k) if reverse else (k, k - 1)
            with ib.if_scope(k < 1), for_each(ib, behind) as inner:
                own = tir.const(neutral, wide) if exclusive else element(source[(*outer, at, *inner)])
                result[(*outer, at, *inner)] = own.astype(dtype)
            with ib.else_scope(), for_each(ib, behind) as inner:
                value = source[(*outer, last if exclusive else at, *inner)]
                result[(*outer, at, *inner)] = combine(result[(*outer, last, *inner)], element(value))

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        make = along_rows if rows.contiguous or wide != dtype else across_rows
        make(ib, ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]))
        return ib.get()

    return te.extern(x.shape, [x], body, name="T_running", dtype=dtype, tag=tag.EXTERN)
