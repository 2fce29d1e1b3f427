"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from tilewright.frontend import idioms
from tilewright.frontend.builders import windows
from tilewright.frontend.builders.elements import shuffled_channels
from tilewright.frontend.builders.product import einsum, kron, matmul
from tilewright.frontend.builders.recurrent_layers import recurrent_layers
from tilewright.frontend.builders.sliding import unshuffled
from tilewright.frontend.idioms import broadcast_to, cast, index_axis, rank_of, reshape, shape_of, slice_axis, transpose
from tilewright.frontend.signature import Typed
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op.onnx_host import host_call

converts.typed({"aten.kron": kron})
converts.functions({
    "aten.outer aten.ger": lambda node: op.expand_dims(node.tensor("self"), axis=1) * node.tensor("vec2"),
    "aten.einsum": lambda node: einsum(str(node["equation"]), [node.as_tensor(one) for one in node["tensors"]]),
})  # fmt: skip


@converts("aten.linear")
def convert_linear(data: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    if rank_of(weight) == 1:
        made = matmul(data, weight)
        return made if bias is None else made + bias
    return affine(data, weight, bias)


def affine(data: Expr, weight: Expr, bias: Expr | None) -> Expr:
    """Rows of any number of axes times the transpose of a matrix, and a bias where there is one."""
    made = _dense(data, weight)
    if bias is None:
        return made
    return op.nn.bias_add(made, bias, axis=rank_of(made) - 1) if rank_of(bias) == 1 else made + bias


def _dense(data: Expr, weight: Expr) -> Expr:
    """Rows of any number of axes times the transpose of a matrix."""
    if rank_of(data) == 1:
        units = shape_of(weight)[0]
        return reshape(op.nn.dense(reshape(data, (1, shape_of(data)[0])), weight, units=units), (units,))
    return op.nn.dense(data, weight, units=shape_of(weight)[0])


@converts("aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.inner", "aten.vdot", "aten.linalg_matmul")
def convert_matmul(node: TorchNode, left: Typed) -> Expr:
    right = node.tensor(next(name for name in ("other", "mat2", "vec", "tensor") if name in node.arguments))
    if ".inner" in node.target:
        if not rank_of(left) or not rank_of(right):
            return left * right
        if rank_of(right) > 1:
            rows = reshape(right, (idioms.product(shape_of(right)[:-1]), shape_of(right)[-1]))
            return reshape(_dense(left, rows), node.shape)
    return matmul(left, right)


def _combined(node: TorchNode, made: Expr) -> Expr:
    """beta * self + alpha * made; with beta 0 self does not count, NaN or not."""
    if node["alpha"] != 1:
        made = made * node["alpha"]
    if node["beta"] == 0:
        return broadcast_to(made, node.shape)
    start = node["self"] if node["beta"] == 1 else node["self"] * node["beta"]
    return start + made


@converts("aten.addmm", "aten.addmv", "aten.baddbmm", "aten.addbmm", "aten.addr")
def convert_addmm(node: TorchNode) -> Expr:
    """beta * self + alpha * the product; of addbmm the sum of the products of a batch."""
    names = [name for name in node.arguments if name not in ("self", "beta", "alpha")]
    left, right = node[names[0]], node[names[1]]
    if ".addr" in node.target:
        return _combined(node, op.expand_dims(left, axis=1) * right)
    made = matmul(left, right)
    return _combined(node, op.sum(made, axis=(0,)) if ".addbmm" in node.target else made)


@converts("aten._trilinear")
def convert_trilinear(node: TorchNode) -> Expr:
    """The product of three tensors, each without some of the axes of the result, summed over some of these."""
    names = ("i1", "i2", "i3")
    rank = rank_of(node["i1"]) + len(node["expand1"])
    axes = [[axis for axis in range(rank) if axis not in node[f"expand{position}"]] for position in (1, 2, 3)]
    terms = ["".join(ascii_lowercase[axis] for axis in kept) for kept in axes]
    result = "".join(ascii_lowercase[axis] for axis in range(rank) if axis not in node["sumdim"])
    pair = "".join(sorted({*terms[0], *terms[1]} & {*terms[2], *result}))
    first = op.einsum([node.tensor(name) for name in names[:2]], equation=f"{terms[0]},{terms[1]}->{pair}")
    return op.einsum([first, node.tensor(names[2])], equation=f"{pair},{terms[2]}->{result}")


@converts("aten.bilinear")
def convert_bilinear(left: Expr, input2: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    outputs, rows, columns = shape_of(weight)
    first = _dense(left, reshape(transpose(weight, (0, 2, 1)), (outputs * columns, rows)))
    parts = reshape(first, (*shape_of(left)[:-1], outputs, columns))
    made: Expr = op.sum(parts * op.expand_dims(input2, axis=rank_of(input2) - 1), axis=(rank_of(parts) - 1,))
    return made if bias is None else made + bias


@converts(
    "aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution", "aten._convolution",
    "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d",
)  # fmt: skip
def convert_conv(node: TorchNode) -> Expr:
    """Convolution over one, two or three spatial axes, or its transpose, with optional bias; perhaps of one sample."""
    data, weight, bias = node["input"], node["weight"], node.get("bias")
    rank = rank_of(weight) - 2
    alone = rank_of(data) == rank + 1
    if alone:
        data = op.expand_dims(data, axis=0)
    options: dict[str, Any] = {
        "strides": node.pair("stride", rank),
        "dilation": node.pair("dilation", rank),
        "groups": int(node["groups"]),
    }
    if "conv_transpose" in node.target or node.get("transposed"):
        made = windows.transposed_convolution(
            data, weight, padding=node.pair("padding", rank) * 2, output_padding=node.pair("output_padding", rank),
            **options,
        )  # fmt: skip
    else:
        padding = _padding(node, shape_of(weight)[2:], options["dilation"])
        made = windows.convolution(data, weight, padding=padding, **options)
    if bias is not None:
        made = op.nn.bias_add(made, bias, axis=1)
    return op.squeeze(made, axis=(0,)) if alone else made


def _padding(node: TorchNode, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """The padding before the data along each axis, then that behind it; "same" may be uneven."""
    given = node["padding"]
    if given == "valid":
        return (0,) * (2 * len(kernel))
    if given == "same":
        total = [step * (size - 1) for step, size in zip(dilation, kernel)]
        return (*(part // 2 for part in total), *(part - part // 2 for part in total))
    return tuple(node.pair("padding", len(kernel))) * 2


@converts("aten.channel_shuffle", "aten.native_channel_shuffle")
def convert_channel_shuffle(node: TorchNode, data: Expr, groups: Any) -> Expr:
    return shuffled_channels(node, data, groups)


@converts("aten.pixel_shuffle", "aten.pixel_unshuffle")
def convert_pixel_shuffle(node: TorchNode, data: Expr) -> Expr:
    if "unshuffle" in node.target:
        return unshuffled(data, node["downscale_factor"])
    *lead, channels, height, width = shape_of(data)
    count, block = len(lead), node["upscale_factor"]
    cut = reshape(data, (*lead, channels // block**2, block, block, height, width))
    return reshape(transpose(cut, [*range(count), *(count + axis for axis in (0, 3, 1, 4, 2))]), node.shape)


# ------------------------------------------------------------------- LSTM, GRU and RNN layers, and single steps of them
@converts("aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def convert_recurrent(node: TorchNode) -> list[Expr]:
    """Outputs (steps, batch, directions * hidden), then the last states (layers * directions, batch, hidden)."""
    if node["train"] and node["dropout"] != 0 and node["num_layers"] > 1:
        node.unsupported("dropout in training, which draws random numbers,")
    name = node.target.split(".")[1]
    states = node["hx"] if name == "lstm" else [node["hx"]]
    data = transpose(node["input"], (1, 0, 2)) if node["batch_first"] else node["input"]
    each, weights = 4 if node["has_biases"] else 2, node["params"]
    count = (2 if node["bidirectional"] else 1) * node["num_layers"]
    if len(weights) != each * count:
        node.unsupported("a projection of the state")
    parts = [weights[each * position : each * (position + 1)] for position in range(count)]
    made, *ends = recurrent_layers(name, data, parts, states, node["num_layers"])
    return [transpose(made, (1, 0, 2)) if node["batch_first"] else made, *ends]


@converts("aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell")
def convert_cell(node: TorchNode, hx: Any) -> Expr | list[Expr]:
    name = node.target.split(".")[1]
    state = hx[0] if name == "lstm_cell" else hx
    parts = []
    for value, position in ((node["input"], "ih"), (state, "hh")):
        weight, bias = node[f"w_{position}"], node[f"b_{position}"]
        made = op.nn.dense(value, weight, units=shape_of(weight)[0])
        parts.append(made if bias is None else op.nn.bias_add(made, bias, axis=1))
    if name.startswith("rnn"):
        return (op.tanh if "tanh" in name else op.nn.relu)(op.add(*parts))
    hidden = shape_of(state)[1]

    def gate(value: Expr, position: int) -> Expr:
        return slice_axis(value, 1, position * hidden, (position + 1) * hidden)

    if name == "gru_cell":
        reset, update = (op.sigmoid(gate(parts[0], position) + gate(parts[1], position)) for position in range(2))
        new = op.tanh(gate(parts[0], 2) + reset * gate(parts[1], 2))
        return new + update * (state - new)
    whole = op.add(*parts)
    kept = op.sigmoid(gate(whole, 1)) * hx[1]
    cell = kept + op.sigmoid(gate(whole, 0)) * op.tanh(gate(whole, 2))
    return [op.sigmoid(gate(whole, 3)) * op.tanh(cell), cell]


# ----------- The operators that torchvision adds: which boxes to keep, means over regions, convolutions with moved taps
@converts("torchvision.nms")
def convert_nms(node: TorchNode) -> Expr:
    """The numbers of the boxes [N, 4] that overlap no better one by more than a part, best first."""
    boxes, scores = node["dets"], node["scores"]
    count = shape_of(scores)[0]
    limits = [node.as_tensor(count, "int64"), op.cast(idioms.like(node["iou_threshold"], boxes), dtype="float32")]
    rows = host_call(
        "NonMaxSuppression",
        [op.expand_dims(boxes, axis=0), op.expand_dims(scores, axis=0, num_newaxis=2), *limits],
        TensorType((AnyDim(), 3), "int64"),
    )
    return index_axis(rows, 1, 2)


@converts("torchvision.roi_align")
def convert_roi_align(node: TorchNode) -> Expr:
    """Means of samples in the bins of regions [R, 5]; of as many regions as a run finds, on the host."""
    data, rois = node["input"], node["rois"]
    size, scale = (node["pooled_height"], node["pooled_width"]), float(node["spatial_scale"])
    ratio, aligned = int(node["sampling_ratio"]), bool(node["aligned"])
    if not any(isinstance(extent, AnyDim) for extent in (*shape_of(rois), *shape_of(data))):
        return op.vision.roi_align(data, rois, size, scale, ratio, aligned=aligned)
    options = {"output_height": size[0], "output_width": size[1], "sampling_ratio": max(ratio, 0)}
    mode = "half_pixel" if aligned else "output_half_pixel"
    return host_call(
        "RoiAlign",
        [data, slice_axis(rois, 1, 1, 5), cast(index_axis(rois, 1, 0), "int64")],
        TensorType((shape_of(rois)[0], shape_of(data)[1], *size), node.dtype),
        coordinate_transformation_mode=mode, spatial_scale=scale, mode="avg", **options,
    )  # fmt: skip


@converts("torchvision.deform_conv2d")
def convert_deform_conv2d(node: TorchNode) -> Expr:
    if node["use_mask"]:
        node.unsupported("a mask on the taps")
    pairs = {
        name: (node[f"{short}_h"], node[f"{short}_w"])
        for name, short in (("strides", "stride"), ("padding", "pad"), ("dilation", "dilation"))
    }
    made = op.nn.deformable_conv2d(
        node["input"], node["offset"], node["weight"], **pairs,
        deformable_groups=node["offset_groups"], groups=node["groups"],
    )  # fmt: skip
    return made + reshape(node["bias"], (1, shape_of(node["bias"])[0], 1, 1))
