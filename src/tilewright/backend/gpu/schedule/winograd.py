"""Winograd convolution on GPUs: three launches, of which the products of all points are one.

    input transform       a thread for each channel and tile: V[p, q, c, tile] = B^T d B
    product               P * Q products M = U V, by the template of products
    output transform      a thread for each filter and tile: A^T M A, the epilogue, and the elements of the tile

V and M are written once and read once or, V, by each block of filters; most of that is in the second-level cache. One
launch would keep both in shared memory, but needs all P * Q sums of a tile in one block: 36 for each element of M,
which leaves room for few filters, so that tiles are transformed again for each of these, and the registers for less
than a quarter of a multiprocessor's threads.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.gpu.schedule.injective import bind_elements
from tilewright.backend.gpu.schedule.product import schedule_product
from tilewright.backend.gpu.schedule.reduce import schedule_alone
from tilewright.backend.gpu.schedule.winograd_cost import WinogradWorkload, winograd_cost, winograd_space
from tilewright.target import DeviceTarget
from tilewright.tir.expr import IntImm
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, shape_of
from tilewright.topi.schedule.template import Template


def fits_winograd(outs: list[te.Tensor]) -> te.Tensor | None:
    """The Winograd convolution that the one result of `outs` is an epilogue of; None where there is none."""
    return next((t for t in computes(outs) if getattr(t.op, "tag", "") == tag.CONV2D_WINOGRAD_NCHW), None)


def workload(conv: te.Tensor, out: te.Tensor) -> WinogradWorkload:
    """The sizes of the convolution; symbolic ones as templates suppose them."""
    patch, _, tiles, product, _, _ = _stages(conv)
    (points, across, channels, count), (batch, _, height, width) = shape_of(tiles), shape_of(conv)
    return WinogradWorkload(
        points * across,
        shape_of(product)[2],
        channels,
        count,
        batch * channels * _image(patch),
        batch * height * width * shape_of(product)[2],
        isinstance(tiles.shape[3], IntImm),
    )


def _image(patch: te.Tensor) -> int:
    """Elements of one channel of the image that tiles are read from."""
    *_, height, width = shape_of(patch.op.input_tensors[0])
    return height * width


def _stages(conv: te.Tensor) -> list[te.Tensor]:
    """The stages before `conv`, in order; see `topi.nn.conv2d_winograd_nchw`."""
    found = [conv]
    for _ in range(6):
        found.append(next(t for t in found[-1].op.input_tensors if isinstance(t.op, te.ComputeOp)))
    return found[:0:-1]


def schedule_winograd(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Apply a configuration of `winograd_space`."""
    patch, input_rows, tiles, product, output_rows, tile = _stages(conv)
    whole = shape_of(out) == shape_of(conv)
    for tensor in computes([out]):
        if tensor.op not in {t.op for t in (patch, input_rows, tiles, product, output_rows, tile, out)} and (
            whole or tensor.op is not conv.op
        ):
            s[tensor].compute_inline()
    if not whole:
        bind_elements(s, out, list(s[out].op.axis), target)
    held = s.cache_read(product, "local", [output_rows])
    _schedule_output(s, conv, out if whole else conv, [held, output_rows, tile], config)
    if "rows" in config:
        schedule_product(s, product, product, target, config, [])
    else:
        schedule_alone(s, product, [product], target)
    _schedule_input(s, tiles, [patch, input_rows], config)


def _schedule_input(s: te.Schedule, tiles: te.Tensor, before: list[te.Tensor], config: Config) -> None:
    """A thread reads the elements of a tile of one channel, and stores it at each point."""
    p, q, channel, tile = s[tiles].op.axis
    s[tiles].reorder(channel, tile, p, q)
    thread = _bind(s, tiles, [channel, tile], config)
    _unroll(s, tiles, [p, q])
    _compute_at(s, before, tiles, thread)


def _schedule_output(s: te.Schedule, conv: te.Tensor, out: te.Tensor, before: list[te.Tensor], config: Config) -> None:
    """A thread reads a tile of one filter at each point, and computes its elements."""
    down, across = conv.op.attrs["filters"]
    batch, channel, y, x = s[out].op.axis
    tile_row, row = s[out].split(y, factor=down.outputs)
    tile_column, column = s[out].split(x, factor=across.outputs)
    s[out].reorder(batch, channel, tile_row, tile_column, row, column)
    thread = _bind(s, out, [batch, channel, tile_row, tile_column], config)
    _unroll(s, out, [row])
    if isinstance(out.shape[3], IntImm) and shape_of(out)[3] % across.outputs == 0:
        s[out].vectorize(column)
    else:
        s[out].unroll(column)
    _compute_at(s, before, out, thread)


def _bind(s: te.Schedule, tensor: te.Tensor, axes: list[te.IterVar], config: Config) -> te.IterVar:
    """Threads for what stands at `axes`, the outermost; returns their axis."""
    block, thread = s[tensor].split(s[tensor].fuse(*axes), factor=config["threads"])
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    return thread


def _compute_at(s: te.Schedule, stages: list[te.Tensor], reader: te.Tensor, thread: te.IterVar) -> None:
    """The steps of a transform in registers."""
    for tensor in stages:
        s[tensor].compute_at(s[reader], thread)
        s[tensor].set_scope("local")
        _unroll(s, tensor, list(s[tensor].op.axis))


def _unroll(s: te.Schedule, tensor: te.Tensor, axes: list[te.IterVar]) -> None:
    for axis in axes:
        s[tensor].unroll(axis)


WINOGRAD = Template("winograd", workload, winograd_space, winograd_cost, schedule_winograd)  # type: ignore[arg-type]
