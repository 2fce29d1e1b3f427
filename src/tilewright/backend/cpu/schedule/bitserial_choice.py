"""The choice of a method for a product of few bits: popcounts, lookups, or products of bytes, by their costs."""

from __future__ import annotations

import functools
import math

from tilewright.backend.cpu.schedule.bitserial import BITSERIAL
from tilewright.backend.cpu.schedule.bitserial_cost import BitserialWorkload
from tilewright.backend.cpu.schedule.conv2d_cost import copy_cost
from tilewright.backend.cpu.schedule.layout import dot_conv2d_layouts
from tilewright.backend.cpu.schedule.product import ProductWorkload
from tilewright.backend.cpu.schedule.product_spaces import DENSE_DOT
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.codegen.llvm.table_lookup import lookup_instruction
from tilewright.target import Target
from tilewright.tir.dot_product import GROUP
from tilewright.tir.matrix_tiles import ROW_BYTES
from tilewright.tir.table_lookup import ENTRIES
from tilewright.topi.bitserial_form import (
    BYTE,
    LOOKUP,
    POPCOUNT,
    POPCOUNT_BYTES,
    padded_channels,
    parts_of_sum,
    steps_of_chunk,
)
from tilewright.topi.nn.conv2d import output_size
from tilewright.topi.schedule.workload import BitserialForm, BitserialProduct, Conv2DWorkload


@functools.lru_cache(maxsize=1024)
def bitserial_form(product: BitserialProduct, target: Target) -> BitserialForm | None:
    """The form that costs least; None where products of bytes, or of int32 without instructions for them, do."""
    forms = bitserial_forms(product, target)
    if not forms:
        return None
    price, form = min((form_cycles(product, form, target), form) for form in forms)
    weights = product.units * product.image[3] * math.prod(product.window)
    price += _fetched(weights * product.weight_bits / 8, target)
    return form if price < _bytes_cycles(product, target) + _fetched(weights, target) else None


def _fetched(weights: float, target: Target) -> float:
    """The cycles in which weights come from behind L2, where costs of a layer by itself leave them in L2.

    Between two runs of a layer in a network the others run, and their weights replace those of this one.
    """
    machine = target.machine
    return weights / machine.read_l3.one if weights <= machine.kept_l2 * machine.l2.size else 0.0


def bitserial_forms(product: BitserialProduct, target: Target) -> list[BitserialForm]:
    """The forms that `target` has code for: lookups and popcounts of bytes in whole vectors, or shorter ones."""
    lanes = min(target.machine.lanes(BYTE), 1 << (product.units.bit_length() - 1))  # no panel is without its last part
    forms = [BitserialForm(POPCOUNT, max(target.machine.lanes(), 1))]
    if target.kind != "c" and lanes >= ENTRIES:
        forms.append(BitserialForm(POPCOUNT_BYTES, lanes))
        if lookup_instruction(target, lanes) is not None:
            forms.append(BitserialForm(LOOKUP, lanes))
    return forms


def form_cycles(product: BitserialProduct, form: BitserialForm, target: Target) -> float:
    """The cycles of the best configuration of a form."""
    return BITSERIAL.ranked(_workload(product, form), target).cheapest[0].cycles


def _workload(product: BitserialProduct, form: BitserialForm) -> BitserialWorkload:
    batch, height, width, given = product.image
    rows, columns = output_size((height, width), product.window, product.strides, product.padding, (1, 1))
    one = product.window == (1, 1) and not any(product.padding)
    channels = padded_channels(given, product.data_bits, form.method)
    terms = math.prod(product.window) * channels
    words = form.method == POPCOUNT
    return BitserialWorkload(
        form.method,
        batch,
        rows,
        columns,
        -(-product.units // form.lanes),
        form.lanes,
        product.window,
        (1, 1) if one else product.strides,
        columns if one else width + product.padding[1] + product.padding[3],
        channels,
        product.data_bits,
        product.weight_bits,
        1 if words else steps_of_chunk(given, product.data_bits, form.method),
        1 if words else parts_of_sum(terms, product.data_bits),
        product.corrected,
    )


def _convolution(product: BitserialProduct) -> Conv2DWorkload:
    """The product as a convolution of bytes."""
    batch, height, width, channels = product.image
    rows, columns = output_size((height, width), product.window, product.strides, product.padding, (1, 1))
    padded = any(product.padding)
    return Conv2DWorkload(
        batch, channels, product.units, height, width, rows, columns, kernel_size=product.window,
        strides=product.strides, dilation=(1, 1), padded=padded,
    )  # fmt: skip


def _bytes_cycles(product: BitserialProduct, target: Target) -> float:
    """The cycles of the product in bytes, as one of matrices, or in int32 where no instruction multiplies bytes."""
    machine = target.machine
    batch, height, width, channels = product.image
    rows, columns = output_size((height, width), product.window, product.strides, product.padding, (1, 1))
    pixels, depth = batch * rows * columns, channels * math.prod(product.window)
    units = -(-product.units // machine.lanes()) * machine.lanes()
    if not (machine.dot_per_cycle or target.architecture == "x86_64"):
        return pixels * product.units * depth / (machine.fma_per_cycle * machine.lanes())
    deep = -(-depth // GROUP) * GROUP
    tiled = product.window == (1, 1) and height == 1 and deep % ROW_BYTES == 0
    panels = [lanes for lanes in (machine.lanes(), 2 * machine.lanes()) if units % lanes == 0]
    works = [ProductWorkload(pixels, units, deep, panel, itemsize=1, dots=True, tiled=tiled) for panel in panels]
    best = min(DENSE_DOT.ranked(work, target).cheapest[0].cycles for work in works)
    if height == 1:
        return best
    if multiplies_tiles(1, target):
        best = min(
            [best, *(one.cost for one in dot_conv2d_layouts(_convolution(product), target, None, 1) if one.cost)]
        )
    moved = batch * height * width * channels + pixels * units * GROUP  # to blocks of channels and back
    return best + copy_cost(moved, target, machine.shuffle).cycles
