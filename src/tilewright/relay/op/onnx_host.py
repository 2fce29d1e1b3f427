"""ONNX operators that run on the host, as Relay operators `onnx.NAME`: one for each that the host has a function for.

What type a call has depends on the ONNX node and its opset, so the importer says it, in the attribute `result`. Values
that are no tensors have the opaque types below, which only host operators, tuples and functions may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import GlobalTypeVar, TensorType, Type, TypeCall
from tilewright.relay.op.host import register_host
from tilewright.runtime.host_ops import HOST_OPS

_SEQUENCE, _OPTIONAL, _MAP = GlobalTypeVar("Sequence"), GlobalTypeVar("Optional"), GlobalTypeVar("Map")
_UNRANKED = GlobalTypeVar("AnyRank")


def sequence_of(element: Type) -> Type:
    """The type of a sequence of `element`s."""
    return TypeCall(_SEQUENCE, (element,))


def optional_of(element: Type) -> Type:
    """The type of an `element` that may be missing."""
    return TypeCall(_OPTIONAL, (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of a map."""
    return TypeCall(_MAP, (key, value))


def unranked(dtype: Any) -> Type:
    """The type of a tensor of `dtype` whose number of dimensions is known at run time only."""
    return TypeCall(_UNRANKED, (TensorType((), dtype),))


def parts_of(type_: Type) -> tuple[str, tuple[Type, ...]]:
    """("Sequence" | "Optional" | "Map" | "AnyRank", what it is made of), or ("", ()) for any other type."""
    if isinstance(type_, TypeCall) and type_.func in (_SEQUENCE, _OPTIONAL, _MAP, _UNRANKED):
        return type_.func.name, type_.args
    return "", ()


for _name in sorted(HOST_OPS):
    if _name.startswith("onnx."):
        register_host(_name, num_inputs=-1, type_rule=lambda _types, attrs: attrs["result"], attributes=None)


def has_host_operator(name: str) -> bool:
    """True if the host has a function for the ONNX operator `name` (`NonZero`, `ml.Scaler`, …)."""
    return f"onnx.{name}" in HOST_OPS


def host_call(name: str, args: Sequence[Expr], result: Type, **attrs: Any) -> Call:
    """A call of the host operator `onnx.NAME` whose value has the type `result`."""
    return Call(get(f"onnx.{name}"), args, {**attrs, "result": result})
