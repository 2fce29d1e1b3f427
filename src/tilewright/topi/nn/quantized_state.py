"""The recurrent product of a layer whose weights are bytes: in each step the state becomes bytes of its own range.

    low, high   = the least and greatest element of the state before step s, of all sequences, and zero
    scale, zero = (high - low) / 255, round(-low / scale)               1, 0 where the state is all zeros
    code[k]     = round(state[k] / scale) + zero                        uint8
    product     = (sum over k of code[k] * weight[k] - zero * column) * scale * weight scale

`column` is the sum of a unit's weights less their zero point, which is known at compile time. The ranges are those of
DynamicQuantizeLinear, of all sequences of a batch together, as in onnxruntime on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.dot_product import GROUP
from tilewright.topi import tag
from tilewright.topi.util import constant_shape

_SUM = "int32"
_LEVELS = 255


@dataclass(frozen=True)
class ByteWeights:
    """The parameters of weights of bytes, each read at (direction, gate, unit).

    A weight stands for (byte - zero) * scale; `columns` are the sums of byte - zero over the inputs of a unit. `zero`
    is None where all are zero. `codes` is the type that the state takes, as the processor's dot product wants it.
    """

    scale: Callable[..., Any]
    columns: Callable[..., Any]
    zero: Callable[..., Any] | None
    codes: str


def byte_product(
    state: Tensor, weight: Tensor, numbers: ByteWeights, first: int, count: int, depth: int, back: int, name: str
) -> Callable[..., Any]:
    """Returns the product of gates `first` to `first + count` with `state` as real numbers at (s, d, b, gate, unit).

    `weight` [D, P, K / 4, G, block, 4] has zeros behind its `depth` inputs; `back` is 1 where step s reads the state of
    the step before it.
    """
    scale, zero = _range(state, depth, back, numbers.codes)
    groups, block = constant_shape(weight)[2], constant_shape(weight)[4]
    codes = te.compute(
        (*state.shape[:3], groups * GROUP),
        lambda s, d, b, k: _code(state(s - back, d, b, k), scale(s, d), zero(s, d), numbers.codes),
        name=f"{name}_codes",
        tag=tag.RECURRENT_CODES,
    )
    outer, inner = te.reduce_axis((0, groups), name="k_outer"), te.reduce_axis((0, GROUP), name="k_inner")

    def term(s: Any, d: Any, b: Any, g: Any, panel: Any, lane: Any) -> Any:
        byte = weight(d, panel, outer, first + g, lane, inner).astype(_SUM)
        return te.sum(codes(s, d, b, outer * GROUP + inner).astype(_SUM) * byte, axis=[outer, inner])

    shape = (*state.shape[:3], count, constant_shape(weight)[1], block)
    sums = te.compute(shape, term, name=name, tag=tag.RECURRENT_PRODUCT)
    totals = _totals(codes, depth) if numbers.zero is not None else None

    def real(s: Any, d: Any, b: Any, g: Any, u: Any) -> Any:
        at = (d, first + g, u)
        total = sums(s, d, b, g, u // block, u % block) - zero(s, d) * numbers.columns(*at)
        if totals is not None and numbers.zero is not None:
            total = total - numbers.zero(*at) * totals(s, d, b)
        return total.astype(state.dtype) * (scale(s, d) * numbers.scale(*at))

    return real


def _range(state: Tensor, depth: int, back: int, codes: str) -> list[Tensor]:
    """The scale and the zero point (int32) of the state of each step and direction."""
    bounds = []
    for name, reducer in (("low", te.min), ("high", te.max)):
        k, row = te.reduce_axis((0, depth), name="k"), te.reduce_axis((0, state.shape[2]), name="row")
        each = te.compute(
            state.shape[:3],
            lambda s, d, b, k=k, reducer=reducer: reducer(state(s - back, d, b, k), axis=k),
            name=f"state_{name}",
            tag=tag.RECURRENT_RANGE,
        )
        bounds.append(
            te.compute(
                state.shape[:2],
                lambda s, d, each=each, row=row, reducer=reducer: reducer(each(s, d, row), axis=row),
                name=f"batch_{name}",
                tag=tag.RECURRENT_RANGE,
            )
        )
    nothing = tir.const(0, state.dtype)

    def numbers(s: Any, d: Any) -> list[Any]:
        low, high = tir.minimum(bounds[0](s, d), nothing), tir.maximum(bounds[1](s, d), nothing)
        scale = tir.select(high > low, (high - low) / tir.const(_LEVELS, state.dtype), tir.const(1, state.dtype))
        zero = _limited(tir.round((nothing - low) / scale)).astype(_SUM)
        return [scale, zero - 128 if codes == "int8" else zero]

    return list(te.compute(state.shape[:2], numbers, name="state_scale", tag=tag.RECURRENT_RANGE))


def _code(value: Any, scale: Any, zero: Any, codes: str) -> Any:
    shift = 128 if codes == "int8" else 0
    position = tir.round(value / scale) + (zero + shift).astype(value.dtype)
    code = _limited(position).astype(_SUM)
    return (code - shift if shift else code).astype(codes)


def _limited(value: Any) -> Any:
    return tir.minimum(tir.maximum(value, tir.const(0, value.dtype)), tir.const(_LEVELS, value.dtype))


def _totals(codes: Tensor, depth: int) -> Tensor:
    """The sum of the codes of each step, direction and sequence."""
    k = te.reduce_axis((0, depth), name="k")
    return te.compute(
        codes.shape[:3],
        lambda s, d, b: te.sum(codes(s, d, b, k).astype(_SUM), axis=k),
        name="code_total",
        tag=tag.RECURRENT_RANGE,
    )
