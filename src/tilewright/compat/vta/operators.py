"""`vta.top`: convolutions and dense layers on tiles as computations with schedules, and graphs, which pack themselves.

    with env.target:
        res = vta.top.conv2d_packed(data, kernel, (1, 1), (1, 1, 1, 1), (1, 1), layout, env.acc_dtype)
        s = vta.top.schedule_conv2d_packed([topi.cast(topi.right_shift(res, 8), env.out_dtype)])

What follows the sums, operations of the vector unit on them and on other tensors, is done on the chip.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, topi
from tilewright.compat.vta.environment import Environment, get_env
from tilewright.errors import InputError, UnsupportedError
from tilewright.tir import as_const

_CONV, _DENSE = "conv2d_dense", "dense_pack"


def is_packed_layout(layout: str) -> bool:
    """True for a layout that ends with the dimensions of a tile: NCHW1n16c."""
    return layout != "NCHW" and layout.startswith("NCHW") and "n" in layout and "c" in layout


def conv2d_packed(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    layout: str,
    out_dtype: str,
) -> te.Tensor:
    """The sums of a convolution of [images, channels, rows, columns, batch, block] by weights of tiles.

    Raises `InputError` for another layout, `UnsupportedError` for a dilation.
    """
    if not is_packed_layout(layout) or len(data.shape) != 6 or len(kernel.shape) != 6:
        raise InputError(f"conv2d_packed of layout {layout!r}: it takes tiles, NCHW<batch>n<block>c, of six dimensions")
    if tuple(dilation) != (1, 1):
        raise UnsupportedError(
            f"conv2d_packed(dilation={tuple(dilation)}): compile the model with target='vta' instead"
        )
    pads = [*padding, *padding][:4] if len(padding) == 2 else list(padding)
    source = data
    if any(pads):
        source = topi.nn.pad(data, [0, 0, pads[0], pads[1], 0, 0], [0, 0, pads[2], pads[3], 0, 0])
    n, _, _, _, batch, block = _sizes(data)
    outputs, inputs, rows, columns, out_block, _ = _sizes(kernel)
    height, width = _sizes(source)[2:4]
    k, y, x, b = (
        te.reduce_axis((0, size), name)
        for size, name in ((inputs, "k_o"), (rows, "d_i"), (columns, "d_j"), (block, "k_i"))
    )
    shape = (n, outputs, (height - rows) // strides[0] + 1, (width - columns) // strides[1] + 1, batch, out_block)
    return te.compute(
        shape,
        lambda i, c, h, w, bi, ci: te.sum(
            source[i, k, h * strides[0] + y, w * strides[1] + x, bi, b].astype(out_dtype)
            * kernel[c, k, y, x, ci, b].astype(out_dtype),
            axis=[k, y, x, b],
        ),
        name="res",
        tag=_CONV,
    )


def dense_packed(data: te.Tensor, weight: te.Tensor, bias: Any = None, out_dtype: str | None = None) -> te.Tensor:
    """The sums of a product of [rows, inputs, batch, block] by weights of tiles. `InputError` for other dimensions."""
    if len(data.shape) != 4 or len(weight.shape) != 4 or bias is not None:
        raise InputError("dense_packed takes tiles, four dimensions each, and no bias; add it to the sums")
    rows, inputs, batch, block = _sizes(data)
    outputs, _, out_block, _ = _sizes(weight)
    wide = out_dtype or get_env().acc_dtype  # type: ignore[attr-defined]
    k, b = te.reduce_axis((0, inputs), "k_o"), te.reduce_axis((0, block), "k_i")
    return te.compute(
        (rows, outputs, batch, out_block),
        lambda i, c, bi, ci: te.sum(data[i, k, bi, b].astype(wide) * weight[c, k, ci, b].astype(wide), axis=[k, b]),
        name="res",
        tag=_DENSE,
    )


def schedule_conv2d_packed(outs: Sequence[te.Tensor]) -> te.Schedule:
    """A schedule of what was made of a convolution's sums, its tiles chosen to fit the environment's memories."""
    return _schedule(outs, _CONV)


def schedule_dense_packed(outs: Sequence[te.Tensor]) -> te.Schedule:
    """A schedule of what was made of a dense layer's sums."""
    return _schedule(outs, _DENSE)


# ---------------------------------------------------------------------------------------------------- the schedule
@dataclass
class _Stages:
    """The stages between the sums and the result: elementwise stages, and tensors that these read."""

    core: te.Tensor
    between: list[te.Tensor]
    read: list[tuple[te.Tensor, te.Tensor]]


def _stages(output: te.Tensor, tag: str) -> _Stages:
    found, between, read = list[te.Tensor](), list[te.Tensor](), list[tuple[te.Tensor, te.Tensor]]()

    def visit(tensor: te.Tensor) -> None:
        if tag in tensor.op.tag.split(","):
            found.append(tensor)
            return
        if tensor is not output:
            between.append(tensor)
        for source in tensor.op.input_tensors:
            if isinstance(source.op, te.PlaceholderOp):
                read.append((tensor, source))
            elif source not in (*found, *between):
                visit(source)

    visit(output)
    if len(found) != 1:
        raise InputError(f"{output.name} is made of {len(found)} results of {tag}; the schedule is for one")
    return _Stages(found[0], between, read)


def _schedule(outs: Sequence[te.Tensor], tag: str) -> te.Schedule:
    env, output = get_env(), outs[0]
    stages = _stages(output, tag)
    s = te.create_schedule(output.op)
    core, (data, kernel) = stages.core, stages.core.op.input_tensors
    if isinstance(data.op, te.PlaceholderOp):
        loaded = s.cache_read(data, env.inp_scope, [core])
    else:
        loaded = data
        s[loaded].set_scope(env.inp_scope)
    weights = s.cache_read(kernel, env.wgt_scope, [core])
    s[core].set_scope(env.acc_scope)
    others = [s.cache_read(tensor, env.acc_scope, [reader]) for reader, tensor in stages.read]
    for tensor in stages.between:
        s[tensor].set_scope(env.acc_scope)
        s[tensor].pragma(s[tensor].op.axis[0], env.alu)
    tiles = _tiles(env, core, data, kernel, len(others))
    position = _split_output(s, output, tiles)
    for tensor in (core, *stages.between, *others):
        s[tensor].compute_at(s[output], position)
    *outer, inner, _ = s[core].op.axis
    reduced = list(s[core].op.reduce_axis)
    chunk, within = s[core].split(reduced[0], factor=tiles.inputs)
    s[core].reorder(outer[0], chunk, *outer[1:], within, *reduced[1:-1], *s[core].op.axis[-2:], reduced[-1])
    for tensor in (loaded, weights):
        s[tensor].compute_at(s[core], chunk)
    for tensor in (loaded, weights, *others):
        s[tensor].pragma(s[tensor].op.axis[0], env.dma_copy)
    s[core].tensorize(inner, env.gemm)
    return s


def _split_output(s: te.Schedule, output: te.Tensor, tiles: _Tiles) -> Any:
    """The axis of the output within which a tile is made, the rest being one transfer; virtual threads are bound."""
    image, *spatial, batch, block = s[output].op.axis
    outer, inner = [], []
    for axis, factor in zip(spatial, tiles.spatial):
        o, i = s[output].split(axis, factor=factor)
        outer.append(o)
        inner.append(i)
    s[output].reorder(image, *outer, *inner, batch, block)
    s[output].pragma(inner[0], get_env().dma_copy)
    position = outer[-1]
    if tiles.threaded is not None:
        rest, thread = s[output].split(outer[tiles.threaded], factor=2)
        s[output].reorder(thread, image)
        s[output].bind(thread, te.thread_axis("cthread"))
        position = rest if tiles.threaded == len(outer) - 1 else position
    return position


@dataclass(frozen=True)
class _Tiles:
    """Parts of the spatial axes (output blocks, rows, columns) in a tile, input blocks of a step, who is threaded."""

    spatial: tuple[int, ...]
    inputs: int
    threaded: int | None


def _tiles(env: Environment, core: te.Tensor, data: te.Tensor, kernel: te.Tensor, others: int) -> _Tiles:
    """The tiles that are expected to move least, of those that divide the sizes and fit; two threads where they can."""
    sizes, blocks = _sizes(core)[1:-2], _sizes(kernel)[1]
    window = _sizes(kernel)[2:-2]
    reach = _sizes(data)[2:-2]
    strides = [max(1, (r - k) // (o - 1)) if o > 1 else 1 for r, k, o in zip(reach, window, sizes[1:])]
    taps = math.prod(window)
    depth = {name: env.machine.isa.memories[name].depth for name in ("INP", "WGT", "ACC")}
    best: tuple[float, _Tiles] | None = None
    for *spatial, inputs in itertools.product(*map(_divisors, (*sizes, blocks))):
        counts = [size // part for size, part in zip(sizes, spatial)]
        threaded = next((n for n, count in enumerate(counts) if count % 2 == 0), None)
        image = inputs * math.prod([(p - 1) * s + k for p, s, k in zip(spatial[1:], strides, window)])
        needs = {
            "INP": image,
            "WGT": spatial[0] * inputs * taps,
            "ACC": math.prod(spatial) + others * max(math.prod(spatial[:1]), 1),
        }
        turns = 1 if threaded is None else 2
        if any(turns * need > depth[name] for name, need in needs.items()):
            continue
        steps = math.prod(counts) * (blocks // inputs)
        load = steps * (image * 2 + needs["WGT"] * 32 + 16 * (1 + inputs))
        compute = steps * (math.prod(spatial) * inputs * taps + 16)
        cost = float(max(load, compute) if turns == 2 else load + compute)
        made = _Tiles(tuple(spatial), inputs, threaded)
        if best is None or cost < best[0]:
            best = cost, made
    if best is None:
        raise UnsupportedError(f"no tile of {core.name} {_sizes(core)} fits into the memories of {env.config.name}")
    return best[1]


def _divisors(size: int) -> list[int]:
    return [n for n in range(1, size + 1) if size % n == 0]


def _sizes(tensor: te.Tensor) -> list[int]:
    sizes = [as_const(size) for size in tensor.shape]
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedError(f"{tensor.name} has symbolic dimensions; programs for VTA are made for fixed ones")
    return sizes  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------------- graphs
def graph_pack(
    expr: Any,
    bfactor: int,
    cfactor: int,
    weight_bits: int,
    start_name: str = "nn.max_pool2d",
    stop_name: str = "nn.global_avg_pool2d",
    start_name_idx: int | None = None,
    stop_name_idx: int | None = None,
    count_meta: bool = False,
    device_annot: bool = False,
    annot_start_name: str = "nn.conv2d",
    annot_end_name: str = "annotation.stop_fusion",
) -> Any:
    """`expr` as it is: what of a graph the accelerator computes is found by patterns and packed when it is compiled.

    Raises `UnsupportedError` for weights of other than 8 bits.
    """
    if weight_bits != 8:
        raise UnsupportedError(f"graph_pack(weight_bits={weight_bits}): weights have 8 bits")
    return expr


def bitpack(data: te.Tensor, bits: int, pack_type: str = "int8", name: str = "bitpack") -> te.Tensor:
    """`data` as it is, where numbers have as many bits as their type. Raises `UnsupportedError` for fewer."""
    if f"int{bits}" != pack_type:
        raise UnsupportedError(f"bitpack to {bits} of {pack_type}: numbers of fewer than 8 bits are not packed")
    return data
