"""Products with weights of a few bits: a tile of rows by a panel, with sums of integers for each block of the depth.

    quantize the blocks of all rows                              block_peak, block_codes, block_total
    parallel panels
      for each tile of rows
        y[rows, vectors] = 0
        for each block of the depth
          sums[rows, digits, vectors] = 0
          for each step of the block
            sums += dot(four inputs, broadcast, four codes a lane)        for each field of a vector of bytes
          y += (sums as a float - zero * total) * scale
        epilogue and store

A byte of the weights is read once for all rows of a tile; its codes are taken apart in registers. Where there are
matrix registers, many rows have a tile of these for their sums (`code_tile.py`).
"""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.backend.cpu.schedule.code_tile import code_tile
from tilewright.backend.cpu.schedule.common import parallel_outer, power_of_two_lanes, vectorize_lanes
from tilewright.backend.cpu.schedule.dense_blockwise_cost import blockwise_cost, blockwise_space, blockwise_workload
from tilewright.backend.cpu.schedule.lanes import reduce_along
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.dot_product import GROUP, dot4
from tilewright.tir.look_up import look_up
from tilewright.topi import tag
from tilewright.topi.nn.dense_blockwise import codes_of_step, products_of_fields, products_of_table
from tilewright.topi.reference.blockwise import step_of
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, has_tag, inline_between, shape_of, terms_of
from tilewright.topi.schedule.template import Template

_BYTE_BITS = 8


def schedule_dense_blockwise(s: te.Schedule, dense: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `dense` (tag dense_blockwise: [rows, N/b, b]) and its epilogue `out` [..., N]."""
    panel = shape_of(dense)[-1]
    _schedule_integers(s, dense, target)
    accumulator = inline_between(s, dense, out)
    *others, column = s[out].op.axis
    row = s[out].fuse(*others) if len(others) > 1 else others[0]
    panels, lane = s[out].split(column, factor=panel)
    tiles, row = s[out].split(row, factor=config["tile_rows"])
    s[out].reorder(panels, tiles, row, lane)
    matrix = bool(config.get("matrix", 0))
    if not matrix:  # sums that are in memory need no names
        s[out].unroll(row)
    vectorize_lanes(s, out, lane, panel, target)
    parallel_outer(s, out, [panels], target, terms_of(dense) * dense.op.attrs["block"])

    s[accumulator].compute_at(s[out], tiles)
    row, panel_axis, lane = s[accumulator].op.axis
    (block,) = s[accumulator].op.reduce_axis
    s[accumulator].reorder(panel_axis, block, row, lane)
    if not matrix:
        s[accumulator].unroll(row)
    vectorize_lanes(s, accumulator, lane, panel, target)
    (sums,) = (t for t in computes([dense]) if has_tag(t, tag.BLOCKWISE_SUMS))
    if matrix:
        _multiply_tile(s, sums, dense, config["tile_rows"])
    else:
        _schedule_sums(s, sums, dense, target)
    s[sums].compute_at(s[accumulator], block)


def _multiply_tile(s: te.Schedule, sums: te.Tensor, dense: te.Tensor, rows: int) -> None:
    """The integer sums of one block in matrix registers."""
    row, panel_axis, block, digit, lane = s[sums].op.axis
    s[sums].reorder(panel_axis, block, row, digit, lane, *s[sums].op.reduce_axis)
    bits, digits = dense.op.attrs["bits"], dense.op.attrs["digits"]
    steps = dense.op.attrs["block"] // (step_of(bits)[1] * GROUP)
    s[sums].tensorize(row, code_tile(rows, shape_of(dense)[-1], steps, bits, digits))


def _schedule_sums(s: te.Schedule, sums: te.Tensor, dense: te.Tensor, target: Target) -> None:
    """The sums of one block: steps outermost, then vectors, so that each is taken apart once for all rows."""
    panel, bits = shape_of(dense)[-1], dense.op.attrs["bits"]
    s[sums].set_scope("local")
    row, panel_axis, block, digit, lane = s[sums].op.axis
    step, byte = s[sums].op.reduce_axis
    lanes = power_of_two_lanes(panel, target)
    vectors, vector = s[sums].split(lane, factor=lanes)
    s[sums].reorder(panel_axis, block, step, vectors, row, digit, vector, byte)
    for axis in (vectors, row, digit):
        s[sums].unroll(axis)
    unsigned = bits == _BYTE_BITS or target.architecture == "x86_64"
    table = dense.op.attrs.get("table")
    added = code_dot(lanes, bits, _in_pairs(bits), unsigned) if table is None else code_look_up(lanes, bits, table)
    s[sums].tensorize(vector, added)


def _in_pairs(bits: int) -> bool:
    """True if the sum of two products of a code and a byte fits 16 bits."""
    (byte, _), (_, most) = (DType(name).limits() for name in ("int8", "int16"))
    return 2 * ((1 << bits) - 1) * -byte <= most


def _schedule_integers(s: te.Schedule, dense: te.Tensor, target: Target) -> None:
    """The integers of all blocks, before the product: a few passes over the rows."""
    for tensor in computes([dense]):
        axes = list(s[tensor].op.axis) if tensor.op is not dense.op else []
        if has_tag(tensor, tag.BLOCK_RANGE):
            parallel_outer(s, tensor, axes[:2], target, terms_of(tensor))
            reduce_along(s, tensor, target)
        elif has_tag(tensor, tag.BLOCK_CODES):
            row, block, digit, *inner = axes
            if shape_of(tensor)[0] > 1:  # an odd number of lines: rows of a tile lie in different sets of a cache
                size = target.machine.line // tensor.dtype.itemsize
                s[tensor].storage_align(row, 2 * size, size)
            run = s[tensor].fuse(*inner)
            lanes = min(target.machine.lanes(), shape_of(tensor)[-1] * shape_of(tensor)[-2] * shape_of(tensor)[-3])
            vectors, lane = s[tensor].split(run, factor=lanes)
            s[tensor].reorder(row, block, vectors, digit, lane)
            s[tensor].unroll(digit)
            s[tensor].vectorize(lane)
            parallel_outer(s, tensor, [row, block], target)


@functools.cache
def code_dot(lanes: int, bits: int, in_pairs: bool, unsigned: bool = True) -> te.TensorIntrin:
    """c[i] += sum over f, k of data[f][k] * field f of weight[i, k], for `lanes` values of i, in int32.

    Row by row `weight` [lanes, 4] holds the bytes of a step, and a step F codes (`codes_of_step`), each of which
    meets four bytes of data. Codes of fewer than eight bits may be multiplied as signed bytes, where `unsigned` is
    false.
    """
    rows, fields = step_of(bits)
    data = [te.placeholder((GROUP,), "int8", name=f"data{field}") for field in range(fields)]
    weights = [te.placeholder((lanes, GROUP), "uint8", name=f"weight{row}") for row in range(rows)]
    k = te.reduce_axis((0, GROUP), "k")

    def term(i: te.IterVar) -> te.Tensor:
        return te.sum(products_of_fields([w[i, k] for w in weights], [four[k] for four in data], bits), axis=k)

    c = te.compute((lanes,), term, name="dot")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, tir.Stmt, tir.Stmt]:
        by_name, (sums,) = {buffer.name: buffer for buffer in ins}, outs
        lane = tir.Ramp(op.const(0), op.const(1), lanes)
        many = op.const(0), tir.Ramp(op.const(0), op.const(1), GROUP * lanes)
        stored = [tir.BufferLoad(by_name[f"weight{row}"], many) for row in range(rows)]

        def store(total: tir.Expr) -> tir.Stmt:
            for field, code in enumerate(codes_of_step(stored, bits)):
                four = tir.BufferLoad(by_name[f"data{field}"], (tir.Ramp(op.const(0), op.const(1), GROUP),))
                word = op.call_intrin("int32", "reinterpret", four)
                spread = op.call_intrin(f"int8x{GROUP * lanes}", "reinterpret", tir.Broadcast(word, lanes))
                code = code if unsigned else op.call_intrin(f"int8x{GROUP * lanes}", "reinterpret", code)
                total = dot4(total, code, spread, in_pairs)
            return tir.BufferStore(sums, total, (lane,))

        zero = tir.Broadcast(op.const(0), lanes)
        return store(zero), tir.BufferStore(sums, zero, (lane,)), store(tir.BufferLoad(sums, (lane,)))

    return te.decl_tensor_intrin(c.op, statements, name=f"code_dot_{lanes}_{bits}_{in_pairs}_{unsigned}")


@functools.cache
def code_look_up(lanes: int, bits: int, table: tuple[float, ...]) -> te.TensorIntrin:
    """c[i] += sum over f, k of data[f][k] * table[field f of weight[i, k]], for `lanes` values of i, in float32.

    Two sums, of every other field, are added at the end: they do not wait for each other.
    """
    _, fields = step_of(bits)
    data = [te.placeholder((GROUP,), "float32", name=f"data{field}") for field in range(fields)]
    weight = te.placeholder((lanes, GROUP), "uint8", name="weight")
    k = te.reduce_axis((0, GROUP), "k")

    def term(i: te.IterVar) -> te.Tensor:
        return te.sum(products_of_table(weight[i, k], [four[k] for four in data], bits, table), axis=k)

    c = te.compute((lanes,), term, name="looked_up")
    words, reals = DType("int32").with_lanes(lanes), DType("float32").with_lanes(lanes)

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, tir.Stmt, tir.Stmt]:
        by_name, (sums,) = {buffer.name: buffer for buffer in ins}, outs
        lane = tir.Ramp(op.const(0), op.const(1), lanes)
        stored = tir.BufferLoad(by_name["weight"], (op.const(0), tir.Ramp(op.const(0), op.const(1), GROUP * lanes)))
        word = op.call_intrin(words, "reinterpret", stored)
        zero = tir.Broadcast(op.const(0.0), lanes)

        def store(total: tir.Expr) -> tir.Stmt:
            parts = [total, zero]
            for position in range(GROUP * fields):
                byte, field = divmod(position, fields)
                distance = op.const(position * bits, words)
                number = look_up(op.call_intrin(words, "shift_right", word, distance) if position else word, table)
                value = tir.Broadcast(tir.BufferLoad(by_name[f"data{field}"], (op.const(byte),)), lanes)
                parts[position % 2] = op.call_intrin(reals, "fma", value, number, parts[position % 2])
            return tir.BufferStore(sums, parts[0] + parts[1], (lane,))

        return store(zero), tir.BufferStore(sums, zero, (lane,)), store(tir.BufferLoad(sums, (lane,)))

    return te.decl_tensor_intrin(c.op, statements, name=f"code_look_up_{lanes}_{bits}_{hash(table) & 0xFFFFFFFF:x}")


DENSE_BLOCKWISE = Template(
    "dense_blockwise", blockwise_workload, blockwise_space, blockwise_cost, schedule_dense_blockwise
)
