"""Convolutions whose channels stand last are computed with channels first, as the blocked layouts are offered for that.

Before: nn.relu(nn.conv2d(%x, %w, data_layout="NHWC", kernel_layout="HWIO"))
After:  %0 = transpose(%x, axes=[0, 3, 1, 2]); %1 = transpose(%w, axes=[3, 2, 0, 1]); %2 = nn.conv2d(%0, %1);
        transpose(nn.relu(%2), axes=[0, 2, 3, 1])

A convolution whose result has another order than its data's is one with a transposition behind it, and one in
blocks for which there is no kernel a plain one between transformations. What lies
between convolutions follows, pooling and resizing with it, so a network is transposed where data comes in
and goes out, if at all. Alone, each convolution would be transposed to and fro within its kernel.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, get, names
from tilewright.relay.ir.visitor import calls, rewrite
from tilewright.relay.op.following import LETTERS
from tilewright.relay.op.nn.convolution import has_kernel
from tilewright.relay.op.transform import layout_transform, transpose
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.simplify.make import is_call


def channels_first(mod: IRModule) -> IRModule:
    """Convert every function with such a convolution; a module without one is returned as it is."""
    mod = mod.map_functions(
        lambda func: func.with_body(rewrite(rewrite(func.body, _in_order_of_data), _without_blocks))
    )
    if not any(_is_channels_last(call) for func in mod.functions.values() for call in calls(func.body)):
        return mod
    wanted = {name: LETTERS[get(name).spatial_axes] for name in names() if get(name).spatial_axes}
    return convert_layout(mod, wanted)


def _in_order_of_data(node: Expr) -> Expr | None:
    """A convolution with a plain `out_layout` of its own as one without, and a transposition."""
    if not isinstance(node, Call) or not _is_convolution(node):
        return None
    data, out = node.attrs["data_layout"], node.attrs.get("out_layout", "")
    if out in ("", data) or sorted(out) != sorted(data) or sorted(data) != sorted(LETTERS[len(data) - 2]):
        return None
    made = Call(node.op, node.args, node.attrs.replace(out_layout=""), node.span)
    return transpose(made, [data.index(letter) for letter in out])


def _without_blocks(node: Expr) -> Expr | None:
    """An `nn.conv2d` in blocks that no kernel computes as a plain one, between transformations."""
    if not isinstance(node, Call) or not is_call(node, "nn.conv2d") or has_kernel(node.attrs):
        return None
    attrs = node.attrs
    data = layout_transform(node.args[0], attrs.data_layout, "NCHW")
    kernel = layout_transform(node.args[1], attrs.kernel_layout, "OIHW")
    plain = attrs.replace(data_layout="NCHW", kernel_layout="OIHW", out_layout="")
    out = attrs.out_layout or attrs.data_layout
    return layout_transform(Call(node.op, (data, kernel), plain, node.span), "NCHW", out)


def _is_convolution(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.spatial_axes > 0 and "kernel_layout" in call.attrs


def _is_channels_last(call: Call) -> bool:
    """True for a convolution of one to three axes in an order of plain axes other than channels first."""
    if not _is_convolution(call):
        return False
    assert isinstance(call.op, Op)
    letters, layout = LETTERS[call.op.spatial_axes], call.attrs["data_layout"]
    return layout != letters and sorted(layout) == sorted(letters)
