"""Products of few bits: register tiles of pixels by panels of output channels, from planes of bits or tables of sums.

    parallel bands of rows
      codes of the data, then its planes or tables                   bit_codes, bit_planes or bit_tables
      for each panel, row, tile of pixels
        sums[pixels, planes] = 0                                     in words of 16 bits, h of them for a vector
        for each tap of the window, for each chunk of channels
          bytes[pixels, planes] = 0
          for each step of the chunk                                 eight channels: a vector of weights
            bytes += table[low nibble] + table[high nibble]          or popcount(plane & weights)
          sums += bytes, widened
        joined by planes, epilogue and store

A vector of weights is loaded, and its nibbles taken apart, once for all pixels of a tile. Popcounts of words have no
bytes: they are added as they come.
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.bitserial_cost import bitserial_cost, bitserial_space, bitserial_workload
from tilewright.backend.cpu.schedule.bitserial_intrin import (
    lookup_intrin,
    pixel_intrin,
    plane_intrin,
    table_intrin,
    widen_intrin,
)
from tilewright.backend.cpu.schedule.common import parallel_outer, vectorize_lanes
from tilewright.backend.cpu.schedule.lanes import reduce_along
from tilewright.target import Target
from tilewright.tir.table_lookup import ENTRIES
from tilewright.topi import tag
from tilewright.topi.bitserial_form import BYTE, GROUPS, LOOKUP, NIBBLE, POPCOUNT
from tilewright.topi.nn.bitserial import digits_of
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, has_tag, inline_before, inline_between, shape_of, terms_of
from tilewright.topi.schedule.template import Template

_OPERANDS = (tag.BIT_CODES, tag.BIT_PLANES, tag.BIT_TABLES, tag.BIT_PIXELS, tag.BIT_WINDOWS)


def schedule_bitserial(s: te.Schedule, product: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `product` (tag bitserial_conv2d: [N, H, W, O/L, planes …, L]) and its epilogue `out` [..., O]."""
    method, before = product.op.attrs["method"], computes([product])
    operands = [t for t in computes([out]) if any(has_tag(t, kind) for kind in _OPERANDS)]
    accumulator = inline_between(s, product, out)
    panel = _panel_of(product)
    *others, column = s[out].op.axis
    panels, lane = s[out].split(column, factor=panel)
    tiles, pixel = s[out].split(others.pop(), factor=config["tile_columns"])
    outer, row = [panels], []
    if others:
        batch, rows = others
        bands, inner = s[out].split(rows, factor=config["band_rows"])
        outer, row = [batch, bands], [panels, inner]
    s[out].reorder(*outer, *row, tiles, pixel, lane)
    s[out].unroll(pixel)
    vectorize_lanes(s, out, lane, panel, target)
    work = parallel_outer(s, out, outer, target, terms_of(accumulator))
    for tensor in operands:
        _schedule_operand(s, tensor, product, target)
        if others:
            s[tensor].compute_at(s[out], work)
        else:
            parallel_outer(s, tensor, list(s[tensor].op.axis)[:3], target, NIBBLE)

    s[accumulator].compute_at(s[out], tiles)
    b, y, x, p, plane, *lanes = s[accumulator].op.axis
    s[accumulator].reorder(b, y, p, *s[accumulator].op.reduce_axis, x, plane, *lanes)
    s[accumulator].unroll(x)
    s[accumulator].unroll(plane)
    if method == POPCOUNT:
        vectorize_lanes(s, accumulator, lanes[0], panel, target)
        return
    _widen(s, accumulator, lanes, panel, target)
    chunk = s[accumulator].op.reduce_axis[-1]
    (bytes_,) = (t for t in before if has_tag(t, tag.BIT_BYTES))
    s[bytes_].set_scope("local")
    s[bytes_].compute_at(s[accumulator], chunk)
    _schedule_bytes(s, bytes_, method)


def _widen(s: te.Schedule, sums: te.Tensor, lanes: list[te.IterVar], panel: int, target: Target) -> None:
    part, lane = lanes
    parts = shape_of(sums)[-2]
    if target.kind == "c":
        s[sums].vectorize(lane)
    else:
        s[sums].tensorize(part, widen_intrin(panel, parts))


def _schedule_bytes(s: te.Schedule, bytes_: te.Tensor, method: str) -> None:
    """The sums of a chunk: steps outermost, then pixels and planes, so that weights are read once for all pixels."""
    b, y, x, ry, rx, k, p, plane, lane, part = s[bytes_].op.axis
    step, *reduced = s[bytes_].op.reduce_axis
    inner, parts = shape_of(bytes_)[-2:]
    s[bytes_].reorder(b, y, p, ry, rx, k, step, x, plane, lane, part, *reduced)
    s[bytes_].unroll(x)
    s[bytes_].unroll(plane)
    if method == LOOKUP:
        s[bytes_].tensorize(lane, lookup_intrin(inner * parts, parts))
    else:
        s[bytes_].vectorize(s[bytes_].fuse(lane, part))


def _schedule_operand(s: te.Schedule, tensor: te.Tensor, product: te.Tensor, target: Target) -> None:
    """The loops of a stage before the product."""
    axes, lanes = list(s[tensor].op.axis), target.machine.lanes(BYTE)
    if has_tag(tensor, tag.BIT_CODES):
        inline_before(s, tensor)
        lane = axes[-1]
        if shape_of(tensor)[-1] > lanes:
            _, lane = s[tensor].split(lane, factor=lanes)
        s[tensor].vectorize(lane)
    elif has_tag(tensor, tag.BIT_TABLES):
        _, group = s[tensor].split(axes[-2], factor=GROUPS)
        s[tensor].tensorize(group, table_intrin(max(ENTRIES, min(lanes, GROUPS * ENTRIES))))
    elif has_tag(tensor, tag.BIT_PLANES):
        s[tensor].tensorize(s[tensor].op.reduce_axis[0], plane_intrin(tensor.dtype.bits))
    elif has_tag(tensor, tag.BIT_WINDOWS):
        columns, lane = s[tensor].split(axes[-1], factor=min(target.machine.lanes(), shape_of(tensor)[-1]))
        s[tensor].reorder(*axes[:2], columns, *s[tensor].op.reduce_axis, lane)
        s[tensor].vectorize(lane)
    elif digits_of(product.op.attrs["data_bits"], product.op.attrs["method"]) > 1:
        reduce_along(s, tensor, target)
    else:
        channels = terms_of(tensor)
        whole = pixel_intrin(channels, math.gcd(channels, max(lanes, ENTRIES)), target.architecture == "x86_64")
        s[tensor].tensorize(s[tensor].op.reduce_axis[0], whole)


def _panel_of(product: te.Tensor) -> int:
    """Output channels of a panel."""
    *lanes, last = shape_of(product)[5:]
    return lanes[0] * last if lanes else last


BITSERIAL = Template(tag.BITSERIAL, bitserial_workload, bitserial_space, bitserial_cost, schedule_bitserial)
