"""Annotations: calls that compute nothing but tell a pass something about what they hold."""

from __future__ import annotations

from typing import Any

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.op import layout_rules
from tilewright.relay.op.common import call, one, same_as_input

#: Each returns its operand unchanged.
MARKS: dict[str, attr.Schema] = {
    "annotation.bitpack_start": {},
    "annotation.bitpack_end": {},
    "annotation.cast_hint": {"dtype": attr.dtype()},
    "annotation.checkpoint": {},
    "annotation.compiler_begin": {"compiler": attr.text()},
    "annotation.compiler_end": {"compiler": attr.text()},
    "annotation.stop_fusion": {},
    "annotation.with_funcid": {"func_id": attr.integer()},
    "debug": {},
    "device_copy": {"src_device": attr.text("cpu"), "dst_device": attr.text("cpu")},
    "on_device": {
        "device": attr.text("cpu"),
        "constrain_result": attr.flag(False),
        "constrain_body": attr.flag(True),
    },
}

for _name, _attributes in MARKS.items():
    register(
        _name,
        num_inputs=1,
        type_rule=same_as_input,
        compute=one(topi.identity),
        pattern=OpPattern.OPAQUE if _name in ("annotation.stop_fusion", "device_copy") else OpPattern.ELEMWISE,
        reference=lambda _attrs, x: x,
        attributes=_attributes,
        layout=layout_rules.follow_input,
    )


def bitpack_start(data: Expr) -> Call:
    """`data`; from here on the graph works on packed bits."""
    return call("annotation.bitpack_start", data)


def bitpack_end(data: Expr) -> Call:
    """`data`; up to here the graph works on packed bits."""
    return call("annotation.bitpack_end", data)


def cast_hint(data: Expr, dtype: str) -> Call:
    """`data`, which may be kept in `dtype`."""
    return call("annotation.cast_hint", data, dtype=str(dtype))


def checkpoint(data: Expr) -> Call:
    """`data`, which the backward pass may compute again instead of keeping it."""
    return call("annotation.checkpoint", data)


def compiler_begin(data: Expr, compiler: str) -> Call:
    """`data`, the input of a region for the external `compiler`."""
    return call("annotation.compiler_begin", data, compiler=compiler)


def compiler_end(data: Expr, compiler: str) -> Call:
    """`data`, a result of a region for the external `compiler`."""
    return call("annotation.compiler_end", data, compiler=compiler)


def stop_fusion(data: Expr) -> Call:
    """`data`, computed by a kernel of its own."""
    return call("annotation.stop_fusion", data)


def with_funcid(data: Expr, func_id: int) -> Call:
    """`data`, which belongs to the function numbered `func_id`."""
    return call("annotation.with_funcid", data, func_id=func_id)


def debug(data: Expr) -> Call:
    """`data`, where an interpreter may stop."""
    return call("debug", data)


def device_copy(data: Expr, src_device: Any = "cpu", dst_device: Any = "cpu") -> Call:
    """`data` on another device."""
    return call("device_copy", data, src_device=str(src_device), dst_device=str(dst_device))


def on_device(data: Expr, device: Any = "cpu", constrain_result: bool = False, constrain_body: bool = True) -> Call:
    """`data`, which lives on `device`."""
    attrs = {"constrain_result": constrain_result, "constrain_body": constrain_body}
    return call("on_device", data, device=str(device), **attrs)
