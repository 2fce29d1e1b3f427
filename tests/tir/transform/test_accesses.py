"""Accesses read and written, and replacing buffers."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, seq
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.visitor import substitute

A, B, C = Buffer("a", [8]), Buffer("b", [8], "int32"), Buffer("c", [8])
I = Var("i")


def test_reads_and_writes():
    store = BufferStore(C, BufferLoad(A, [BufferLoad(B, [I])]), (I,))
    found = accesses_of(For(I, const(0), BufferLoad(B, [const(0)]), ForKind.SERIAL, store))
    assert list(found.reads) == [B, A] and list(found.writes) == [C]


def test_memory_whose_address_is_taken_may_be_written():
    address = Call("handle", "address_of", (BufferLoad(A, [const(0)]),))
    found = accesses_of(Evaluate(Call("int32", "call_extern", (address,))))
    assert list(found.reads) == [A] and list(found.writes) == [A]


def test_memory_whose_address_is_for_reading_is_not_written():
    found = accesses_of(Evaluate(Call("int32", "call_extern", (A.access_ptr("r"), B.access_ptr("w")))))
    assert list(found.reads) == [A, B] and list(found.writes) == [B]


def test_a_buffer_is_replaced_in_all_its_accesses():
    other = Buffer("t", [8])
    body = Allocate(A, seq(BufferStore(A, const(1.0), (I,)), BufferStore(C, BufferLoad(A, [I]) + 1.0, (I,))))
    replaced = substitute(body, {}, {A: other})
    found = accesses_of(replaced)
    assert replaced.buffer is other and list(found.reads) == [other] and list(found.writes) == [other, C]
    assert substitute(body, {}, {B: other}) is body
