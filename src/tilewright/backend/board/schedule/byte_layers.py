"""Layers of bytes as calls of C functions (`codegen/source/byte_layers.py`), whatever loops their expressions have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import te, tir
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.reference.byte_layers import LANES
from tilewright.topi.schedule.stages import has_tag, shape_of

#: Pixels whose windows a convolution copies.
_PIXELS = 3


def is_layer(out: te.Tensor) -> bool:
    """True for a tensor that a function computes."""
    return has_tag(out, tag.BYTE_LAYER)


def layer_call(out: te.Tensor) -> te.Tensor:
    """The tensor of a layer as one call."""
    facts = out.op.attrs
    operands = list(dict.fromkeys(facts["operands"]))
    kinds = {"conv2d": _conv2d, "sums": _sums, "depthwise": _depthwise, "add": _add}

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        reads = dict(zip(operands, ins, strict=True))
        pointers = [outs[0].access_ptr("w"), *(reads[part].access_ptr("r") for part in facts["operands"])]
        name, scratch, numbers = kinds[facts["kind"]](facts, out)
        if scratch:
            pointers.append(ib.allocate("int8", (scratch,), name="windows").buffer.access_ptr("rw"))
        ib.emit(tir.call_extern("int32", f"tilewright_layer_{name}", *pointers, *map(tir.const, numbers)))
        return ib.get()

    return te.extern(shape_of(out), operands, body, name="layer", dtype=str(out.dtype))


def _window(facts: Mapping[str, Any]) -> tuple[int, ...]:
    (top, left, *_), pad = facts["padding"], facts["pad_value"]
    return (*facts["kernel_size"], *facts["strides"], top, left, pad)


def _end(facts: Mapping[str, Any]) -> tuple[int, ...]:
    return facts["zero"], facts["low"], facts["high"]


def _sums(facts: Mapping[str, Any], out: te.Tensor) -> tuple[str, int, tuple[int, ...]]:
    data, weight, _ = facts["operands"]
    sizes = (*shape_of(data)[1:], *shape_of(out)[1:])
    return "conv2d_sums", _PIXELS * LANES * shape_of(weight)[1], (*sizes, *_window(facts))


def _conv2d(facts: Mapping[str, Any], out: te.Tensor) -> tuple[str, int, tuple[int, ...]]:
    _, scratch, numbers = _sums(facts, out)
    return f"conv2d_{facts['rounding']}", scratch, (*numbers, *_end(facts))


def _depthwise(facts: Mapping[str, Any], out: te.Tensor) -> tuple[str, int, tuple[int, ...]]:
    data, weight, *_ = facts["operands"]
    sizes = (*shape_of(data)[1:], *shape_of(out)[1:3])
    blocks, taps, lanes = shape_of(weight)
    return f"depthwise_{facts['rounding']}_{taps}", blocks * lanes, (*sizes, *_window(facts), *_end(facts))


def _add(facts: Mapping[str, Any], out: te.Tensor) -> tuple[str, int, tuple[int, ...]]:
    count = 1
    for size in shape_of(out):
        count *= size
    numbers = [count]
    for zero, left, m, shift in (facts["first"], facts["second"]):
        numbers += [zero, left, m, -shift]
    return f"add_{facts['rounding']}", 0, (*numbers, facts["m"], -facts["shift"], *_end(facts))
