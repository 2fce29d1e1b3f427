"""Tensor intrinsics of products of few bits: lookups, their widening, tables of sums, planes of bits."""

from __future__ import annotations

import functools
from typing import Any

from tilewright import te, tir
from tilewright.tir import op
from tilewright.tir.dot_product import GROUP, dot4
from tilewright.tir.table_lookup import ENTRIES, NONE, lookup, mask_bits
from tilewright.topi.bitserial_form import GROUPS, NIBBLE
from tilewright.topi.nn.bitserial import looked_up, plane_bit, table_entry

_Statements = tuple[tir.Stmt, tir.Stmt | None, tir.Stmt | None]


def _vector(buffer: tir.Buffer, lanes: int, *outer: int) -> tir.BufferLoad:
    return tir.BufferLoad(buffer, (*map(op.const, outer), tir.Ramp(op.const(0), op.const(1), lanes)))


@functools.cache
def lookup_intrin(lanes: int, parts: int) -> te.TensorIntrin:
    """c[i] += table[0][low nibble of w[i]] + table[1][high nibble], of `lanes` bytes as [lanes / parts, parts]."""
    shape = (lanes // parts, parts)
    tables = te.placeholder((2, ENTRIES), "uint8", name="tables")
    weight = te.placeholder(shape, "uint8", name="weight")
    half, m = te.reduce_axis((0, 2), "half"), te.reduce_axis((0, ENTRIES), "m")

    def term(i: Any, j: Any) -> Any:
        return te.sum(looked_up(weight[i, j], half, m, tables[half, m]), axis=[half, m])

    c = te.compute(shape, term, name="lookups")
    kind = f"uint8x{lanes}"

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> _Statements:
        by_name, (sums,) = {buffer.name: buffer for buffer in ins}, outs
        where = (op.const(0), tir.Ramp(op.const(0), op.const(1), lanes))
        both = tir.BufferLoad(by_name["weight"], where)
        nibbles = [
            op.call_intrin(kind, "bitwise_and", both, op.const(ENTRIES - 1, kind)),
            op.call_intrin(kind, "shift_right", both, op.const(NIBBLE, kind)),
        ]

        def store(total: tir.Expr | None) -> tir.Stmt:
            for number, nibble in enumerate(nibbles):
                found = lookup(_vector(by_name["tables"], ENTRIES, number), nibble)
                total = found if total is None else total + found
            assert total is not None
            return tir.BufferStore(sums, total, where)

        zero = tir.BufferStore(sums, tir.Broadcast(op.const(0, "uint8"), lanes), where)
        return store(None), zero, store(tir.BufferLoad(sums, where))

    return te.decl_tensor_intrin(c.op, statements, name=f"lookup_{lanes}_{parts}")


@functools.cache
def widen_intrin(lanes: int, parts: int) -> te.TensorIntrin:
    """c[j, i] += bytes[i, j], of `lanes` bytes as [lanes / parts, parts], in words of `parts` bytes."""
    inner, wide = lanes // parts, f"uint{8 * parts}"
    bytes_ = te.placeholder((inner, parts), "uint8", name="bytes")
    one = te.reduce_axis((0, 1), "one")
    c = te.compute((parts, inner), lambda j, i: te.sum(bytes_[i, j].astype(wide), axis=one), name="widened")
    kind = f"{wide}x{inner}"

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> _Statements:
        (data,), (sums,) = ins, outs
        words = op.call_intrin(kind, "reinterpret", _vector(data, lanes, 0))

        def part(number: int) -> tir.Expr:
            moved = op.call_intrin(kind, "shift_right", words, op.const(8 * number, kind)) if number else words
            if number == parts - 1:
                return moved
            return op.call_intrin(kind, "bitwise_and", moved, op.const(255, kind))

        def store(add: bool, value: tir.Expr | None = None) -> tir.Stmt:
            stores = []
            for number in range(parts):
                where = (op.const(number), tir.Ramp(op.const(0), op.const(1), inner))
                total = part(number) if value is None else value
                stores.append(tir.BufferStore(sums, tir.BufferLoad(sums, where) + total if add else total, where))
            return tir.seq(*stores)

        return store(False), store(False, tir.Broadcast(op.const(0, wide), inner)), store(True)

    return te.decl_tensor_intrin(c.op, statements, name=f"widen_{lanes}_{parts}")


@functools.cache
def table_intrin(lanes: int) -> te.TensorIntrin:
    """The tables [4, 16] of the sums of four data each: entry m has those whose bit in m is set; `lanes` at a time."""
    data = te.placeholder((GROUPS * NIBBLE,), "uint8", name="data")

    def entry(group: Any, m: Any) -> Any:
        return table_entry(lambda position: data[group * NIBBLE + position], m)

    c = te.compute((GROUPS, ENTRIES), entry, name="tables")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> _Statements:
        (data,), (tables,) = ins, outs
        codes, stores = _vector(data, GROUPS * NIBBLE), []
        for first in range(0, GROUPS * ENTRIES, lanes):
            found = [lookup(codes, _held(range(first, first + lanes), position)) for position in range(NIBBLE)]
            total = (found[0] + found[1]) + (found[2] + found[3])
            group, entry = divmod(first, ENTRIES)
            where = (op.const(group), tir.Ramp(op.const(entry), op.const(1), lanes))
            stores.append(tir.BufferStore(tables, total, where))
        return tir.seq(*stores), None, None

    return te.decl_tensor_intrin(c.op, statements, name=f"tables_{lanes}")


def _held(entries: range, position: int) -> tir.Expr:
    """The index of datum `position` of the group of each entry that holds it, as a constant vector."""
    every = tir.Ramp(op.const(0, "uint8"), op.const(1, "uint8"), ENTRIES)
    none = tir.Broadcast(op.const(NONE, "uint8"), 2)
    indices = [entry // ENTRIES * NIBBLE + position if entry >> position & 1 else ENTRIES for entry in entries]
    return tir.Shuffle((every, none), indices)


@functools.cache
def plane_intrin(word: int) -> te.TensorIntrin:
    """A word of the bits of one plane of `word` bytes."""
    data = te.placeholder((word,), "uint8", name="data")
    lane, plane = te.reduce_axis((0, word), "lane"), te.var("plane")
    c = te.compute((1,), lambda _: te.sum(plane_bit(data[lane], plane, lane, word), axis=lane), name="word")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer], scalars: list[tir.Var]) -> _Statements:
        (data,), (words,) = ins, outs
        kind = f"uint8x{word}"
        one = op.call_intrin("uint8", "shift_left", op.const(1, "uint8"), scalars[0].astype("uint8"))
        bits = op.call_intrin(kind, "bitwise_and", _vector(data, word), tir.Broadcast(one, word))
        ones = tir.NE(bits, tir.Broadcast(op.const(0, "uint8"), word))
        return tir.BufferStore(words, mask_bits(ones), (op.const(0),)), None, None

    return te.decl_tensor_intrin(c.op, statements, name=f"plane_{word}", scalar_params=[plane])


@functools.cache
def pixel_intrin(channels: int, lanes: int, signed: bool) -> te.TensorIntrin:
    """The sum of `channels` bytes, by dot products with ones (of a signed type where the target wants that)."""
    data, c = te.placeholder((channels,), "uint8", name="data"), te.reduce_axis((0, channels), "c")
    total = te.compute((1,), lambda _: te.sum(data[c].astype("int32"), axis=c), name="pixel")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> _Statements:
        (data,), (sums,) = ins, outs
        ones = op.const(1, f"{'int8' if signed else 'uint8'}x{lanes}")
        added: tir.Expr = op.const(0, f"int32x{lanes // GROUP}")
        for first in range(0, channels, lanes):
            bytes_ = tir.BufferLoad(data, (tir.Ramp(op.const(first), op.const(1), lanes),))
            added = dot4(added, bytes_, ones, in_pairs=True)
        whole = op.call_intrin("int32", "vector_reduce_add", added)
        return tir.BufferStore(sums, whole, (op.const(0),)), None, None

    return te.decl_tensor_intrin(total.op, statements, name=f"pixel_{channels}_{lanes}_{signed}")
