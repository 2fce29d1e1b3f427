"""Convolutions that boards have kernels for, with channels last, and what lies between them.

Before: nn.conv2d(%x, %w)                                                                     (NCHW, OIHW)
After:  %0 = transpose(%x, axes=[0, 2, 3, 1]); %1 = transpose(%w, axes=[0, 2, 3, 1]);
        transpose(nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="OHWI"), axes=[0, 3, 1, 2])
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.simplify.make import is_call

_SUMS = ("int32", "float32")


def channels_last(mod: IRModule) -> IRModule:
    """Convert convolutions of integers and floats; see the module's docstring."""
    mod = infer_type(mod)
    if not any(_is_convolution(call) for func in mod.functions.values() for call in calls(func.body)):
        return mod
    return infer_type(convert_layout(mod, {"nn.conv2d": "NHWC"}, rules={"nn.conv2d": _converted}))


def _is_convolution(node: Call) -> bool:
    return is_call(node, "nn.conv2d") and str(tensor_type_of(node).dtype) in _SUMS


def _converted(attrs: Attrs, args: Sequence[Expr], types: Sequence[Type], layouts: Sequence[str]) -> Expr | None:
    """A convolution that has a kernel, with channels last; None for any other."""
    data, kernel, out = types
    assert isinstance(data, TensorType) and isinstance(kernel, TensorType) and isinstance(out, TensorType)
    plain = (attrs["data_layout"], attrs["kernel_layout"]) == ("NCHW", "OIHW") and attrs["out_layout"] in ("", "NCHW")
    depthwise = attrs["groups"] == data.shape[1] == kernel.shape[0] and attrs["groups"] > 1
    if not plain or str(out.dtype) not in _SUMS or not out.is_static or tuple(attrs["dilation"]) != (1, 1):
        return None
    if attrs["groups"] != 1 and not depthwise:
        return None
    order = "HWIO" if depthwise else "OHWI"
    return Call(get("nn.conv2d"), args, attrs.replace(data_layout="NHWC", kernel_layout=order, out_layout=""))
