"""Quantized operators whose operands the classic stack rounds one by one, ties upwards: `relay.qnn.op.add` …."""

from __future__ import annotations

import functools
from typing import Any

from tilewright import relay
from tilewright.relay.op import qnn
from tilewright.relay.op.qnn.arithmetic import rounded_each

#: How the classic `requantize` rounds unless it is told.
ROUNDING = "UPWARD"


def _binary(name: str) -> Any:
    own = getattr(qnn, name)

    @functools.wraps(own)
    def build(*args: Any, **options: Any) -> relay.Call:
        return rounded_each(own(*args, **options), ROUNDING)

    return build


add, subtract, mul = _binary("add"), _binary("subtract"), _binary("mul")


def concatenate(
    data: Any, input_scales: Any, input_zero_points: Any, output_scale: Any, output_zero_point: Any, axis: int
) -> relay.Call:
    """Quantized tensors joined along `axis`, each brought to the output's scale and zero point."""
    made = qnn.concatenate(data, input_scales, input_zero_points, output_scale, output_zero_point, axis)
    return rounded_each(made, ROUNDING)
