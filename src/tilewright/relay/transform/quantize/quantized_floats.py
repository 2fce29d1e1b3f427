"""Numbers that are quantized, in fewer steps: bytes that are floats again at once, and conversions that round.

Before: %q = cast(clip(add(round(%x), 3f), -128f, 127f), "int8")
        cast(subtract(cast(%q, "int32"), 3), "float32")
After:  round(clip(%x, -131f, 124f))

Before: %q                                                     stored, or read by products
After:  cast(add(cast(round(clip(%x, -131f, 124f)), "int32"), 3), "int8")

Limits and zero points are whole numbers, so that limiting before rounding is limiting after it. The conversion of a
rounded number is one instruction on x86. Only what one kernel computes is changed: between kernels bytes are the
better form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.tensor import add, cast, clip, round
from tilewright.relay.transform.simplify.make import is_call

#: Whole numbers up to which float32 holds each, and a shift of one is exact.
_WHOLE = 1 << 24


def quantized_floats(mod: IRModule) -> IRModule:
    """Take steps out of quantized floats; see the module's docstring."""

    kernels: dict[Function, Function] = {}  # calls may share one

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Function) or "Primitive" not in node.op.attrs:
            return None
        if node.op not in kernels:
            kernels[node.op] = node.op.with_body(rewrite(node.op.body, _rule))
        made = kernels[node.op]
        return None if made.body is node.op.body else Call(made, node.args, node.attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule))))


@dataclass(frozen=True)
class _Codes:
    """round(data) + zero, limited to [low, high]."""

    data: Expr
    zero: int
    low: int
    high: int

    def centred(self) -> Expr:
        """The codes less their zero point, in float32."""
        return round(clip(self.data, float(self.low - self.zero), float(self.high - self.zero)))


def _rule(node: Expr) -> Expr | None:
    if not is_call(node, "cast"):
        return None
    assert isinstance(node, Call)
    dtype = str(tensor_type_of(node).dtype)
    if dtype in ("int8", "uint8"):
        return _converted(node, dtype)
    return _dequantized(node.args[0]) if dtype == "float32" else None


def _converted(node: Call, dtype: str) -> Expr | None:
    """The codes of a `cast` to bytes, converted where they are rounded."""
    found = _codes(node.args[0])
    if found is None:
        return None
    whole = cast(found.centred(), "int32")
    return cast(add(whole, Constant(np.asarray(found.zero, "int32"))) if found.zero else whole, dtype)


def _dequantized(node: Expr) -> Expr | None:
    """The float that int32 codes less a zero point are made of, moved where it is another one than theirs."""
    node, zero = _apart(node, "subtract")
    if not is_call(node, "cast") or str(tensor_type_of(node).dtype) != "int32":
        return None
    (bytes_,) = node.args  # type: ignore[attr-defined]
    found = _before(bytes_)
    if found is None:
        return None
    moved = float(found.zero - zero)
    return add(found.centred(), Constant(np.asarray(moved, "float32"))) if moved else found.centred()


def _before(bytes_: Expr) -> _Codes | None:
    """The codes that bytes are, in the form that `_converted` wrote: operands are rewritten before their users."""
    if not is_call(bytes_, "cast") or str(tensor_type_of(bytes_).dtype) not in ("int8", "uint8"):
        return None
    (whole,) = bytes_.args  # type: ignore[attr-defined]
    whole, zero = _apart(whole, "add")
    if not is_call(whole, "cast") or not is_call(whole.args[0], "round"):  # type: ignore[attr-defined]
        return None
    limited = whole.args[0].args[0]  # type: ignore[attr-defined]
    if not is_call(limited, "clip") or str(tensor_type_of(limited).dtype) != "float32":
        return None
    low, high = (int(limited.attrs[name]) + zero for name in ("a_min", "a_max"))
    least, most = tensor_type_of(bytes_).dtype.limits()
    return _Codes(limited.args[0], zero, low, high) if least <= low and high <= most else None


def _codes(node: Expr) -> _Codes | None:
    """The codes in float32 that `node` is."""
    if not is_call(node, "clip") or str(tensor_type_of(node).dtype) != "float32":
        return None
    limits = [node.attrs[name] for name in ("a_min", "a_max")]  # type: ignore[attr-defined]
    (data,) = node.args  # type: ignore[attr-defined]
    data, zero = _apart(data, "add")
    if not is_call(data, "round") or any(limit != int(limit) or abs(limit) > _WHOLE for limit in limits):
        return None
    return _Codes(data.args[0], zero, int(limits[0]), int(limits[1]))  # type: ignore[attr-defined]


def _apart(node: Expr, name: str) -> tuple[Expr, int]:
    """The operand of a sum or difference by a whole number, and that; the node itself and 0 where it is none."""
    if not is_call(node, name):
        return node, 0
    assert isinstance(node, Call)
    number = _whole(node.args[1])
    return (node, 0) if number is None else (node.args[0], number)


def _whole(expr: Expr) -> int | None:
    """The whole number, one for all elements, that a constant is."""
    if not isinstance(expr, Constant) or expr.data.size != 1:
        return None
    number = float(expr.data.reshape(()))
    return int(number) if abs(number) <= _WHOLE and number == int(number) else None
