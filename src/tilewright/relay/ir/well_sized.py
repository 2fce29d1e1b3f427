"""Sizes that no memory holds, refused before anything is compiled for them."""

from __future__ import annotations

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, walk_type
from tilewright.relay.ir.visitor import post_order

#: Bytes that a process can address, on every processor that there is a target for.
ADDRESSABLE = 1 << 57
#: Dimensions of NumPy's arrays, in which tensors come and go.
MOST_DIMENSIONS = 64


def refuse_unaddressable(mod: IRModule) -> None:
    """Raise `UnsupportedError` for a typed module with a tensor of more bytes, or dimensions, than a process can have.

    Counts are exact: a product of extents that does not fit 64 bits is not taken for a small one.
    """
    for gvar, func in mod.functions.items():
        for node in post_order(*func.params, func.body):
            for type_ in walk_type(node.inferred_type) if node.inferred_type is not None else ():
                reason = _reason(type_) if isinstance(type_, TensorType) else ""
                if reason:
                    what = node.op.name if isinstance(node, Call) and hasattr(node.op, "name") else "a value"
                    position = f" (from {node.span})" if isinstance(node, Call) and node.span else ""
                    raise UnsupportedError(f"{what}{position} in @{gvar.name} has the type {type_}, {reason}")


def _reason(type_: TensorType) -> str:
    """Why no process can have a tensor of the type; nothing where one can."""
    if type_.ndim > MOST_DIMENSIONS:
        return f"{type_.ndim} dimensions: at most {MOST_DIMENSIONS} are possible"
    if type_.is_static and type_.nbytes > ADDRESSABLE:
        return f"{type_.nbytes} bytes: more than any memory; choose smaller sizes of the model"
    return ""
