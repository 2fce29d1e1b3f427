"""Convolutions of 16-bit floats and of bytes with channels last, the order in which tensor cores read whole vectors.

Before: nn.relu(nn.conv2d(%x, %w))                                                       (float16; NCHW, OIHW)
After:  %0 = transpose(%x, axes=[0, 2, 3, 1]); %1 = transpose(%w, axes=[2, 3, 1, 0]);
        %2 = nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO"); transpose(nn.relu(%2), axes=[0, 3, 1, 2])

The terms that a matrix product sums are then neighbours in memory, and 16 bytes of them go to shared memory by one
asynchronous copy. What lies between convolutions follows (`convert_layout`).
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.simplify.make import is_call


def channels_last(mod: IRModule) -> IRModule:
    """Convert every function with such a convolution; a module without one is returned as it is."""
    mod = infer_type(mod)
    found = [call for func in mod.functions.values() for call in calls(func.body) if is_call(call, "nn.conv2d")]
    return convert_layout(mod, {"nn.conv2d": ["NHWC", "default"]}) if any(map(_is_narrow, found)) else mod


def _is_narrow(call: Call) -> bool:
    """True for a convolution of one group of elements of at most 16 bits."""
    return call.attrs["groups"] == 1 and tensor_type_of(call.args[0]).dtype.itemsize <= 2
