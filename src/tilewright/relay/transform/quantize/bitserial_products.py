"""Products of few bits with constant weights, computed from their bits where the backend expects that to be quicker.

Before: nn.bitserial_conv2d(%x, w, activation_bits=2)                   %x: [N, C, H, W], w: one bit, NCHW
After:  %0 = layout_transform(cast(%x, "uint8"), "NCHW", "NHWC");
        %1 = nn.contrib_bitserial_conv2d(%0, packed, method="lookup", data_bits=2, scale=2, offset=1);
        cast(layout_transform(%1, "NHWC", "NCHW"), "int16")

Weights are packed in planes, in the order in which the kernel of the method reads them. Where a bit of the weights
counts as +1 or -1, the result is twice that of 1 or 0 less the sum of the data. Others become products of integers
(`expand_operators`), which `dot_products` makes ones of bytes.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.nn.bitserial import contrib_bitserial_conv2d, contrib_bitserial_dense
from tilewright.relay.op.tensor import cast
from tilewright.relay.op.transform import layout_transform
from tilewright.relay.transform.quantize.dot_products import constant_value
from tilewright.topi.bitserial_form import DATA_BITS, WEIGHT_BITS, BitSerial
from tilewright.topi.reference.bitserial import pack_weight
from tilewright.topi.reference.layout import layout_transform as moved
from tilewright.topi.schedule.workload import BitserialForm, BitserialProduct


def bitserial_products(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Rewrite products of few bits whose weights and sizes are known; see the module's docstring."""
    conv2d, dense = get("nn.bitserial_conv2d"), get("nn.bitserial_dense")

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in (conv2d, dense):
            return None
        weight = constant_value(node.args[1])
        known = all(isinstance(size, int) for size in tensor_type_of(node.args[0]).shape)
        if weight is None or not known:
            return None
        return (_conv2d if node.op is conv2d else _dense)(node, weight, backend)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule))))


def _form(
    backend: GraphBackend, attrs: Attrs, data_bits: int, image: tuple[int, ...], weight: np.ndarray
) -> BitserialForm | None:
    """The form of the product of images of a size and weights [O, KH, KW, C]; None where it stays one of integers."""
    bits = attrs["weight_bits"]
    if data_bits > DATA_BITS or bits > WEIGHT_BITS or 0 in (*image, *weight.shape):
        return None
    units, kh, kw, _ = weight.shape
    n, h, w, c = image
    strides, padding = attrs.get("strides", (1, 1)), attrs.get("padding", (0, 0, 0, 0))
    product = BitserialProduct(
        (n, h, w, c), units, (kh, kw), tuple(strides), tuple(padding), data_bits, bits, attrs["unipolar"]
    )
    return backend.bitserial_form(product)


def _how(form: BitserialForm, attrs: Attrs, units: int, data_bits: int) -> BitSerial:
    if not attrs["unipolar"]:
        return BitSerial(form.method, units, data_bits)
    return BitSerial(form.method, units, data_bits, 2, (1 << attrs["weight_bits"]) - 1)


def _dense(node: Call, weight: np.ndarray, backend: GraphBackend) -> Expr | None:
    attrs, (rows, depth) = node.attrs, tensor_type_of(node.args[0]).shape
    bits, weight = attrs["data_bits"], weight[:, None, None]
    form = _form(backend, attrs, bits, (1, 1, rows, depth), weight)
    if form is None:
        return None
    packed = Constant(pack_weight(weight, attrs["weight_bits"], bits, form.method, form.lanes))
    how = _how(form, attrs, len(weight), bits)
    return cast(contrib_bitserial_dense(cast(node.args[0], "uint8"), packed, how), attrs["out_dtype"])


def _conv2d(node: Call, weight: np.ndarray, backend: GraphBackend) -> Expr | None:
    attrs, data = node.attrs, node.args[0]
    bits, layout = attrs["activation_bits"], attrs["data_layout"]
    shape = dict(zip(layout, tensor_type_of(data).shape, strict=True))
    weight = moved(weight, attrs["kernel_layout"], "OHWI")
    form = _form(backend, attrs, bits, tuple(shape[axis] for axis in "NHWC"), weight)
    if form is None:
        return None
    packed = Constant(pack_weight(weight, attrs["weight_bits"], bits, form.method, form.lanes))
    how, images = _how(form, attrs, len(weight), bits), cast(data, "uint8")
    if layout != "NHWC":
        images = layout_transform(images, layout, "NHWC")
    product: Expr = contrib_bitserial_conv2d(images, packed, how, attrs["strides"], attrs["padding"])
    product = cast(product, attrs["out_dtype"])
    return product if layout == "NHWC" else layout_transform(product, "NHWC", layout)
