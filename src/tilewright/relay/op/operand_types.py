"""Expected types of operands that a program leaves untyped, the field `Op.expected_operands`.

    data = relay.var("data", shape=(1, 3, 224, 224))
    relay.nn.conv2d(data, relay.var("weight"), channels=64, kernel_size=(3, 3))     # weight: (64, 3, 3, 3)

Weights, biases and statistics: what follows from the first operand and the attributes. Type inference asks it last.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.registry import ExpectedOperands
from tilewright.relay.ir.type import TensorType


def dense_operands(data: TensorType, attrs: Attrs) -> list[TensorType | None]:
    """Weights [units, K] for `units=`."""
    if attrs["units"] is None or attrs["weight_layout"] not in ("NC", "NK", ""):
        return [None]
    return [TensorType((attrs["units"], data.shape[-1]), data.dtype)]


def convolution_operands(data: TensorType, attrs: Attrs) -> list[TensorType | None]:
    """The kernel for `channels=` and `kernel_size=`."""
    return _kernel(data, attrs, transposed=False)


def transposed_operands(data: TensorType, attrs: Attrs) -> list[TensorType | None]:
    """The kernel of a transposed convolution for `channels=` and `kernel_size=`."""
    return _kernel(data, attrs, transposed=True)


def _kernel(data: TensorType, attrs: Attrs, transposed: bool) -> list[TensorType | None]:
    layout, kernel, channels = attrs["kernel_layout"], attrs["kernel_size"], attrs["channels"]
    at = attrs["data_layout"].find("C")
    if kernel is None or channels is None or at < 0 or not layout.isalpha() or data.ndim != len(attrs["data_layout"]):
        return [None]
    extents = dict(zip([letter for letter in layout if letter not in "IO"], kernel, strict=True))
    entering = data.shape[at]
    if transposed:
        extents |= {"I": entering, "O": channels // attrs["groups"]}
    else:
        extents |= {"I": entering // attrs["groups"], "O": channels}
    return [TensorType([extents[letter] for letter in layout], data.dtype)]


def per_channel(count: int) -> ExpectedOperands:
    """`count` vectors along the axis of the channels, `axis`."""

    def rule(data: TensorType, attrs: Attrs) -> list[TensorType | None]:
        axis = attrs["axis"]
        if not -data.ndim <= axis < data.ndim:
            return [None] * count
        return [TensorType((data.shape[axis],), data.dtype)] * count

    return rule
