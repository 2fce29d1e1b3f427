"""What an operator expects of operands that a program leaves without a type: weights, biases, statistics.

    data = relay.var("data", shape=(1, 3, 224, 224))
    relay.nn.conv2d(data, relay.var("weight"), channels=64, kernel_size=(3, 3))     # weight: (64, 3, 3, 3)

Only what follows from the first operand and the attributes is in the table; type inference asks it last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.type import TensorType, Type

Rule = Callable[[TensorType, Attrs], "list[TensorType | None]"]


def expected_operands(name: str, types: Sequence[Type | None], attrs: Attrs) -> list[TensorType | None]:
    """A type for each operand after the first of the operator called `name`; None where nothing follows."""
    rule = _RULES.get(name)
    if rule is None or not types or not isinstance(types[0], TensorType):
        return []
    return rule(types[0], attrs)


def _dense(data: TensorType, attrs: Attrs) -> list[TensorType | None]:
    if attrs["units"] is None or attrs["weight_layout"] not in ("NC", "NK", ""):
        return [None]
    return [TensorType((attrs["units"], data.shape[-1]), data.dtype)]


def _convolution(data: TensorType, attrs: Attrs, transposed: bool = False) -> list[TensorType | None]:
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


def _per_channel(count: int, default_axis: int) -> Rule:
    """`count` vectors along the axis of the channels."""

    def rule(data: TensorType, attrs: Attrs) -> list[TensorType | None]:
        axis = attrs.get("axis", default_axis)
        if not -data.ndim <= axis < data.ndim:
            return [None] * count
        return [TensorType((data.shape[axis],), data.dtype)] * count

    return rule


_RULES: dict[str, Rule] = {
    "nn.dense": _dense,
    **{f"nn.conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": lambda data, attrs: _convolution(data, attrs, True) for n in (1, 2, 3)},
    "nn.bias_add": _per_channel(1, 1),
    "nn.prelu": _per_channel(1, 1),
    "nn.batch_norm": _per_channel(4, 1),
    "nn.instance_norm": _per_channel(2, 1),
    "nn.group_norm": _per_channel(2, 1),
    "nn.layer_norm": _per_channel(2, -1),
}
