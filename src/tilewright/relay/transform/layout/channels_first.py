"""Convolutions whose channels stand last are computed with channels first, as the blocked layouts are offered for that.

Before: nn.relu(nn.conv2d(%x, %w, data_layout="NHWC", kernel_layout="HWIO"))
After:  %0 = transpose(%x, axes=[0, 3, 1, 2]); %1 = transpose(%w, axes=[3, 2, 0, 1]); %2 = nn.conv2d(%0, %1);
        transpose(nn.relu(%2), axes=[0, 2, 3, 1])

What lies between convolutions follows, pooling and resizing with it, so a network is transposed where data comes in
and goes out, if at all. Alone, each convolution would be transposed to and fro within its kernel.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, get, names
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.orders import LETTERS
from tilewright.relay.transform.layout.convert_layout import convert_layout


def channels_first(mod: IRModule) -> IRModule:
    """Convert every function with such a convolution; a module without one is given back as it is."""
    if not any(_is_channels_last(call) for func in mod.functions.values() for call in calls(func.body)):
        return mod
    wanted = {name: LETTERS[get(name).spatial_axes] for name in names() if get(name).spatial_axes}
    return convert_layout(mod, wanted)


def _is_channels_last(call: Call) -> bool:
    """True for a convolution of one to three axes in an order of plain axes other than channels first."""
    if not isinstance(call.op, Op) or not call.op.spatial_axes or "kernel_layout" not in call.attrs:
        return False
    letters, layout = LETTERS[call.op.spatial_axes], call.attrs["data_layout"]
    return layout != letters and sorted(layout) == sorted(letters)
