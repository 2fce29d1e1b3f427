"""Gradients of convolutions' kernels by a kernel of their own, where sizes are constant.

Before: nn.conv2d_backward_weight(%g, %x, kernel_size=[3, 3])                                    %x: [32, 64, 56, 56]
After:  nn.contrib_conv2d_backward_weight(%g, %x, kernel_size=[3, 3], images=1)

It sums over as many images at a time as half of the second-level cache holds with their gradient. Others become a
convolution with the images as channels, as they do on other devices; so do, where the images fill vectors, those of
small planes, whose vectors would hold many zeros.
"""

from __future__ import annotations

from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import is_call
from tilewright.topi.nn.conv2d_backward_weight import LANES, vectors_of

#: Taps in a row of the window, at most: a register tile holds all of them.
_MOST_TAPS = 16

#: Pixels that are computed, for each that counts, from which the other way is faster (measured at 7x7 and 8x8).
_FILLED = 1.2


def weight_gradients(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with its gradients of kernels by their own template; see the module's docstring."""
    if not backend.has_target:
        return mod
    own = get("nn.contrib_conv2d_backward_weight")

    def replaced(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not is_call(node, "nn.conv2d_backward_weight"):
            return None
        types = [tensor_type_of(value) for value in node.args]
        floats = all(t.is_static and t.dtype in ("float32", "float64") for t in types)
        if not floats or node.attrs.kernel_size[1] > _MOST_TAPS:
            return None
        batch = types[0].shape[0]
        if batch % LANES == 0 and _filled(node, types[0]) > _FILLED:
            return None
        held = backend.target.machine.l2.size // 2 * batch // sum(t.size * t.dtype.itemsize for t in types)
        images = max(k for k in range(1, batch + 1) if batch % k == 0 and k <= max(held, 1))
        attrs = Attrs(complete(own.name, own.attributes, {**node.attrs, "images": images}))
        return Call(own, node.args, attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, replaced))))


def _filled(node: Call, gradient: TensorType) -> float:
    """Pixels of the vectors of an image, for each pixel; 1 where the other way multiplies by zeros itself."""
    attrs, (rows, columns) = node.attrs, gradient.shape[2:]
    if attrs.groups != 1 or any(step != 1 for step in attrs.strides):
        return 1.0
    runs, vectors = vectors_of(rows, columns, (attrs.kernel_size[1] - 1) * attrs.dilation[1])
    return runs * vectors * LANES / (rows * columns)
