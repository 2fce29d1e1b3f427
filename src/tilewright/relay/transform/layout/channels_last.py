"""Convolutions of 16-bit floats and of bytes with channels last, the order in which tensor cores read whole vectors.

Before: nn.relu(nn.conv2d(%x, %w))                                                       (float16; NCHW, OIHW)
After:  %0 = transpose(%x, axes=[0, 2, 3, 1]); %1 = transpose(%w, axes=[0, 2, 3, 1]);
        %2 = nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="OHWI"); transpose(nn.relu(%2), axes=[0, 3, 1, 2])

The terms that a matrix product sums are then neighbours in memory, of images and of weights, and 16 bytes of them go to
shared memory by one asynchronous copy; bytes and `wgmma` need both operands in that order. Weights of groups, which
have few terms, keep the filters last (HWIO). What lies between convolutions follows (`convert_layout`). Images whose
channels fill no piece of such a copy, as pictures of three, get channels of zeros where they are transposed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls, rewrite
from tilewright.relay.op.nn import pad
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.simplify.make import is_call

#: Bytes of the smallest piece of an asynchronous copy whose elements are channels of one pixel.
_PIECE = 8


def channels_last(mod: IRModule) -> IRModule:
    """Convert every function with such a convolution; a module without one is returned as it is."""
    mod = infer_type(mod)
    found = [call for func in mod.functions.values() for call in calls(func.body) if _is_narrow(call)]
    if not found:
        return mod
    mod = infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _with_whole_pieces))))
    return convert_layout(mod, {"nn.conv2d": "NHWC"}, rules={"nn.conv2d": _converted})


def _converted(attrs: Attrs, args: Sequence[Expr], types: Sequence[Type], layouts: Sequence[str]) -> Expr | None:
    """The convolution with channels last; None for one that is in another layout already."""
    if (attrs["data_layout"], attrs["kernel_layout"]) != ("NCHW", "OIHW") or attrs["out_layout"] not in ("", "NCHW"):
        return None
    kernel = "OHWI" if attrs["groups"] == 1 else "HWIO"
    return Call(get("nn.conv2d"), args, attrs.replace(data_layout="NHWC", kernel_layout=kernel, out_layout=""))


def _is_narrow(node: Expr) -> bool:
    """True for a convolution of one group of elements of at most 16 bits."""
    if not isinstance(node, Call) or not is_call(node, "nn.conv2d"):
        return False
    return node.attrs["groups"] == 1 and tensor_type_of(node.args[0]).dtype.itemsize <= 2


def _with_whole_pieces(node: Expr) -> Expr | None:
    """A convolution of an image of few channels with channels of zeros; None for any other expression."""
    if not isinstance(node, Call) or not _is_narrow(node) or node.attrs["data_layout"] != "NCHW":
        return None
    data, kernel = node.args
    channels, piece = tensor_type_of(data).shape[1], _PIECE // tensor_type_of(data).dtype.itemsize
    if not isinstance(channels, int) or channels % piece == 0 or node.attrs["kernel_layout"] != "OIHW":
        return None
    more = ((0, 0), (0, -channels % piece), (0, 0), (0, 0))
    return Call(node.op, (pad(data, more), pad(kernel, more)), node.attrs, node.span)
