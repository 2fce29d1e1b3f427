"""The memory plan of a module of bytes before its kernels are compiled: near enough to choose what to compile.

Scratch memory is a row of padded images and the windows of a tile; a result may begin where the rows are that its last
ones need (`tir.overlaps` finds both exactly, from the loops).
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.memory.plan_memory import KernelMemory, plan_memory
from tilewright.relay.transform.simplify.rule_index import RuleIndex
from tilewright.runtime.memory import round_up
from tilewright.topi.reference.byte_conv import BYTES, WORD

#: Bytes of the two pairs that four bytes of a window become; bytes to which parts of scratch memory are aligned.
_PAIRS, _ALIGNED = 8, 64

#: Bytes of scratch memory of a layer whose tiles have up to so many pixels, by its operator.
_scratch_of: RuleIndex[Callable[[Call, int], int]] = RuleIndex()


def estimated_ram(mod: IRModule, backend: GraphBackend, alignment: int, pixels: int) -> int:
    """The bytes of the arena of a module whose tiles have up to so many pixels."""
    fused = fuse_ops(mod, backend=backend)
    return plan_memory(fused, alignment, kernels=lambda call: _memory(call, pixels)).arena_bytes


def _memory(call: Call, pixels: int) -> KernelMemory:
    """An estimate of the memory that the kernel of a call needs, and of the overlaps that it allows."""
    assert isinstance(call.op, Function)
    anchors = [one for one in calls(call.op.body) if _scratch_of.rules(one.op)]
    results = tensor_types(call.checked_type)
    result = results[0]
    scratch, data = 0, None
    if anchors:
        data = anchors[0].args[0]
        (rule,) = _scratch_of.rules(anchors[0].op)
        scratch = rule(anchors[0], pixels)
    overlaps = {}
    for number, (param, arg) in enumerate(zip(call.op.params, call.args, strict=True)):
        type_ = param.checked_type
        if isinstance(arg, Constant) or not isinstance(type_, TensorType) or len(results) != 1:
            continue
        if anchors and param is data:
            overlaps[number, 0] = _distance(anchors[0], type_, result)
        elif type_.shape == result.shape:
            overlaps[number, 0] = max(0, result.nbytes - type_.nbytes) + (pixels * result.shape[-1] if anchors else 0)
    return KernelMemory(scratch, overlaps)


@_scratch_of("nn.contrib_conv2d_bytes")
def _conv2d_scratch(call: Call, pixels: int) -> int:
    weight, (kernel, columns) = tensor_type_of(call.args[1]), call.attrs["kernel_size"]
    _, _, width, channels = tensor_type_of(call.args[0]).shape
    terms, form = weight.shape[1], call.attrs["form"]
    windows = pixels * terms * (1 if form == BYTES else _PAIRS)
    row = terms // kernel * (1 if form == BYTES else WORD)
    _, left, _, right = call.attrs["padding"]
    beyond = -(-(row - columns * channels) // channels)
    padded = kernel * (width + left + right + beyond) * channels if any((*call.attrs["padding"], beyond)) else 0
    return round_up(windows, _ALIGNED) + round_up(padded, _ALIGNED)


@_scratch_of("nn.contrib_depthwise_bytes")
def _depthwise_scratch(call: Call, pixels: int) -> int:
    _, _, width, channels = tensor_type_of(call.args[0]).shape
    _, left, _, right = call.attrs["padding"]
    rows = tensor_type_of(call.args[1]).shape[0]
    padded = rows * (width + left + right) * channels if any(call.attrs["padding"]) else 0
    return round_up(padded, _ALIGNED)


@_scratch_of("nn.contrib_dense_bytes")
def _dense_scratch(call: Call, pixels: int) -> int:
    return round_up(tensor_type_of(call.args[1]).shape[1] * (1 if call.attrs["form"] == BYTES else _PAIRS), _ALIGNED)


def _distance(anchor: Call, data: TensorType, result: TensorType) -> int:
    """By how much a result begins before the image of a convolution: at each row, what is written and still needed."""
    if data.ndim != 4 or result.ndim != 4:
        return max(0, result.nbytes - data.nbytes)
    _, _, width, channels = data.shape
    rows = result.shape[1]
    stride, top = anchor.attrs["strides"][0], anchor.attrs["padding"][0]
    made, row = result.nbytes // rows, width * channels
    return max((y * made - max(0, y * stride - top) * row for y in range(1, rows)), default=0)
