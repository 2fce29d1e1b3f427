"""Quantized operators whose operands the classic stack rounds one by one, ties upwards: `relay.qnn.op.add` …."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.relay.op import qnn
from tilewright.relay.op.qnn.arithmetic import rounded_each
from tilewright.support.named import named

#: How the classic `requantize` rounds unless it is told.
ROUNDING = "UPWARD"


def _binary(name: str) -> Any:
    own = getattr(qnn, name)

    def build(
        lhs: relay.Expr,
        rhs: relay.Expr,
        lhs_scale: Any,
        lhs_zero_point: Any,
        rhs_scale: Any,
        rhs_zero_point: Any,
        output_scale: Any,
        output_zero_point: Any,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> relay.Call:
        parameters = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point)
        return rounded_each(own(lhs, rhs, *parameters, lhs_axis, rhs_axis), ROUNDING)

    return named(build, name, own.__doc__ or "")


add, subtract, mul = _binary("add"), _binary("subtract"), _binary("mul")


def concatenate(
    data: Any, input_scales: Any, input_zero_points: Any, output_scale: Any, output_zero_point: Any, axis: int
) -> relay.Call:
    """Quantized tensors joined along `axis`, each brought to the output's scale and zero point."""
    made = qnn.concatenate(data, input_scales, input_zero_points, output_scale, output_zero_point, axis)
    return rounded_each(made, ROUNDING)
