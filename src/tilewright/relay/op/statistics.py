"""Statistics of all values of a tensor that ranges of quantized data are found by."""

from __future__ import annotations

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import LayoutChoice, OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op.common import Types, call, require, tensors
from tilewright.relay.op.layout_rules import Layouts, channel_block
from tilewright.topi import histogram as compute
from tilewright.topi.reference import histogram as ref


def _any_layout(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """The order of values does not matter: data are read as they are."""
    if not channel_block(layouts[0]):
        return None
    return LayoutChoice((layouts[0], *(None for _ in types[1:])), "NCHW", attrs)


def _extremes_type(types: Types, attrs: Attrs) -> Type:
    (data,) = tensors(types)
    require(data.dtype == "float32", f"it takes float32, not {data.dtype}")
    return TensorType((3,), "float32")


register(
    "extremes",
    num_inputs=1,
    type_rule=_extremes_type,
    compute=lambda attrs, inputs, _out: [compute.extremes(inputs[0])],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x: ref.extremes(x),
    layout=_any_layout,
)


def extremes(data: Expr) -> Call:
    """The least value of float32 `data`, the largest, and the largest magnitude: float32[3].

    The magnitude is NaN or infinite where any value is; the other two leave NaN out.
    """
    return call("extremes", data)


def _histogram_type(types: Types, attrs: Attrs) -> Type:
    data, ends, limit = tensors(types)
    require(all(one.dtype == "float32" for one in (data, ends, limit)), "it takes float32")
    require(ends.shape == (3,) and limit.shape == (), f"extremes are [3] and the limit is [], not {ends}, {limit}")
    require(attrs["bins"] > 0 and attrs["bins"] % 2 == 0, f"bins are an even number, not {attrs['bins']}")
    return TensorType((attrs["bins"],), "int32")


register(
    "histogram",
    num_inputs=3,
    type_rule=_histogram_type,
    compute=lambda attrs, inputs, _out: [compute.histogram(inputs[0], inputs[1], inputs[2], attrs["bins"])],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x, ends, limit: ref.histogram(x, ends, limit, attrs["bins"]),
    layout=_any_layout,
    attributes={"bins": attr.integer(2048)},
)


def histogram(data: Expr, ends: Expr, limit: Expr, bins: int = 2048) -> Call:
    """Counts int32[bins] of the values of `data` in bins of equal width around zero, `ends` being their `extremes`.

    Bins reach to `limit`, a power of two or zero, on either side, or to the least power of two that no value exceeds.
    """
    return call("histogram", data, ends, limit, bins=bins)
