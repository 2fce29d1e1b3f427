"""Sizes that no memory holds, refused before anything is compiled for them."""

from __future__ import annotations

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, walk_type
from tilewright.relay.ir.visitor import post_order

#: Bytes that a process can address, on every processor that there is a target for.
ADDRESSABLE = 1 << 57


def refuse_unaddressable(mod: IRModule) -> None:
    """Raise `UnsupportedError` for a typed module with a tensor of more bytes than a process can address.

    Counts are exact: a product of extents that does not fit 64 bits is not taken for a small one.
    """
    for gvar, func in mod.functions.items():
        for node in post_order(*func.params, func.body):
            for type_ in walk_type(node.inferred_type) if node.inferred_type is not None else ():
                if isinstance(type_, TensorType) and type_.is_static and type_.nbytes > ADDRESSABLE:
                    what = node.op.name if isinstance(node, Call) and hasattr(node.op, "name") else "a value"
                    place = f" (from {node.span})" if isinstance(node, Call) and node.span else ""
                    raise UnsupportedError(
                        f"{what}{place} in @{gvar.name} has the type {type_}, {type_.nbytes} bytes: more than any "
                        f"memory; give the model smaller sizes"
                    )
