"""Types of parameters that a classic program leaves open: `relay.var("weight")` beside a convolution's data.

The operator that reads such a variable says what it must be, from the type of its data and its attributes:
`nn.conv2d(%x, %w, channels=16, kernel_size=[3, 3])` with %x [1, 3, 8, 8] makes %w [16, 3, 3, 3].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import post_order
from tilewright.topi.layout import parse_layout, transform_shape

Shapes = list[tuple[int, ...]]


def infer_weights(func: relay.Function) -> relay.Function:
    """Type every untyped parameter of `func` as its first reader requires; returns `func` itself.

    A parameter that no rule covers is left: type inference then names it.
    """
    if all(param.type_annotation is not None or param.inferred_type is not None for param in func.params):
        return func
    for node in post_order(func.body):
        if isinstance(node, relay.Call) and isinstance(node.op, Op) and node.op.name in _RULES:
            _settle(node, node.op.name)
    return func


def _settle(call: relay.Call, name: str) -> None:
    open_args = [i for i, arg in enumerate(call.args) if _is_open(arg)]
    if not open_args or 0 in open_args:
        return
    try:
        data = type_of(call.args[0])
    except TypeMismatchError:
        return
    if not isinstance(data, relay.TensorType):
        return
    shapes = _RULES[name](data.shape, call.attrs)
    for index in open_args:
        if shapes is not None and index <= len(shapes):
            call.args[index].set_inferred_type(relay.TensorType(shapes[index - 1], data.dtype))


def _is_open(expr: relay.Expr) -> bool:
    return isinstance(expr, relay.Var) and expr.type_annotation is None and expr.inferred_type is None


def _conv2d_transpose(data: Any, attrs: Any) -> Shapes | None:
    if attrs.channels is None or attrs.kernel_size is None or len(attrs.data_layout) != 4:
        return None
    shape = (data[attrs.data_layout.index("C")], attrs.channels // attrs.groups, *attrs.kernel_size)
    return [transform_shape(shape, "IOHW", attrs.kernel_layout)]


def _conv(axes: str) -> Callable[[Any, Any], Shapes | None]:
    def rule(data: Any, attrs: Any) -> Shapes | None:
        if attrs.channels is None or attrs.kernel_size is None or data is None:
            return None
        if len(data) != len(parse_layout(attrs.data_layout).axes):
            return None
        channels = transform_shape(data, attrs.data_layout, f"NC{axes}")[1]
        shape = (attrs.channels, channels // attrs.groups, *attrs.kernel_size)
        return [transform_shape(shape, f"OI{axes}", attrs.kernel_layout)]

    return rule


def _dense(data: Any, attrs: Any) -> Shapes | None:
    return None if attrs.units is None else [(attrs.units, data[-1])]


def _per_channel(count: int) -> Callable[[Any, Any], Shapes]:
    return lambda data, attrs: [(data[attrs.get("axis", 1)],)] * count


_RULES: dict[str, Callable[[Any, Any], Shapes | None]] = {
    "nn.conv1d": _conv("W"),
    "nn.conv2d": _conv("HW"),
    "nn.conv3d": _conv("DHW"),
    "nn.conv2d_transpose": _conv2d_transpose,
    "nn.dense": _dense,
    "nn.bias_add": _per_channel(1),
    "nn.batch_norm": _per_channel(4),
    "nn.layer_norm": _per_channel(2),
    "nn.prelu": _per_channel(1),
}
