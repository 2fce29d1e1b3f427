"""Scatters: tensors of which the elements that indices name are replaced by, or combined with, updates."""

from __future__ import annotations

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import IndexedAxes, OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.common import (
    Types,
    at_most,
    call,
    check_axis,
    known_size,
    require,
    require_same_dtype,
    same_dims,
    tensors,
)
from tilewright.relay.op.gather import coordinates
from tilewright.topi.reference import scatter as ref
from tilewright.topi.scatter import MODES


def _checked(types: Types, mode: str) -> list[TensorType]:
    data, indices, updates = tensors(types)
    require(indices.dtype.is_int, f"the indices must be integers, not {indices.dtype}; cast them first")
    require_same_dtype(data, updates)
    require(mode in MODES, f"mode {mode!r}; known: {', '.join(MODES)}")
    return [data, indices, updates]


def _elements_type(types: Types, attrs: Attrs) -> Type:
    data, indices, updates = _checked(types, attrs.get("reduction", "update"))
    at = check_axis(attrs["axis"], data.ndim)
    fits = all(at_most(i, s) for d, (i, s) in enumerate(zip(indices.shape, data.shape)) if d != at)
    require(fits, f"the indices' shape {indices.shape} exceeds the data's {data.shape} beside axis {attrs['axis']}")
    require(
        same_dims(indices.shape, updates.shape) and indices.ndim == data.ndim,
        f"indices {indices.shape} and updates {updates.shape} must be alike, of {data.ndim} dimensions",
    )
    return data


def _register_elements(name: str, mode: str, **more: attr.Attribute) -> None:
    """Register a scatter along an axis; `mode` is what it does where it has no attribute `reduction` among `more`."""
    register(
        name,
        num_inputs=3,
        type_rule=_elements_type,
        compute=lambda attrs, inputs, _out: [
            topi.scatter_elements(inputs[0], inputs[1], inputs[2], attrs["axis"], attrs.get("reduction", mode))
        ],
        pattern=OpPattern.OPAQUE,
        reference=lambda attrs, x, indices, updates: ref.scatter_elements(
            x, indices, updates, attrs["axis"], attrs.get("reduction", mode)
        ),
        positions=lambda call: IndexedAxes((call.attrs["axis"] % tensor_type_of(call.args[0]).ndim,), from_back=False),
        attributes={"axis": attr.integer(0), **more},
    )


_register_elements("scatter", "update")
_register_elements("scatter_add", "add")
_register_elements("scatter_elements", "update", reduction=attr.text("update"))


def scatter(data: Expr, indices: Expr, updates: Expr, axis: int = 0) -> Call:
    """out[i, …, indices[i, k, …], …] = updates[i, k, …] along `axis`; of several updates the last counts."""
    return call("scatter", data, indices, updates, axis=axis)


def scatter_add(data: Expr, indices: Expr, updates: Expr, axis: int = 0) -> Call:
    """out[i, …, indices[i, k, …], …] += updates[i, k, …] along `axis`, for every k."""
    return call("scatter_add", data, indices, updates, axis=axis)


def scatter_elements(data: Expr, indices: Expr, updates: Expr, axis: int = 0, reduction: str = "update") -> Call:
    """`scatter` with any `reduction`: update, add, mul, min or max (ONNX ScatterElements)."""
    return call("scatter_elements", data, indices, updates, axis=axis, reduction=reduction)


def _nd_type(types: Types, attrs: Attrs) -> Type:
    data, indices, updates = _checked(types, attrs["mode"])
    require(indices.ndim >= 1, "the indices need a first axis that holds the coordinates")
    depth = known_size(indices.shape[0], "the number of coordinates")
    require(depth <= data.ndim, f"{depth} coordinates are too many for data of {data.ndim} dimensions")
    wanted = (*indices.shape[1:], *data.shape[depth:])
    require(same_dims(updates.shape, wanted), f"updates of shape {wanted} are needed, not {updates.shape}")
    return data


register(
    "scatter_nd",
    num_inputs=3,
    type_rule=_nd_type,
    compute=lambda attrs, inputs, _out: [topi.scatter_nd(inputs[0], inputs[1], inputs[2], attrs["mode"])],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x, indices, updates: ref.scatter_nd(x, indices, updates, attrs["mode"]),
    positions=lambda call: coordinates(call, from_back=False),
    attributes={"mode": attr.text("update")},
)


def scatter_nd(data: Expr, indices: Expr, updates: Expr, mode: str = "update") -> Call:
    """Slices of `data` at the coordinates in the first axis of `indices`, replaced by or combined with `updates`.

    `mode` is update (the last of equals counts), add, mul, min or max.
    """
    return call("scatter_nd", data, indices, updates, mode=mode)
