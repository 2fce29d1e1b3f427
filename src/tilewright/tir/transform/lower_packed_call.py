"""Calls of registered Python functions, as calls of the one C function that the runtime has for them."""

from __future__ import annotations

from tilewright.runtime.packed import ARRAY, FLOAT, INTEGER, SYMBOL, name_words
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr, StringImm
from tilewright.tir.stmt import Allocate, BufferStore, Evaluate, PrimFunc, Stmt, seq
from tilewright.tir.visitor import StmtRewriter


def lower_packed_call(func: PrimFunc) -> PrimFunc:
    """`func` with each call of a packed function made stores of what describes it, and a call of a C function.

                                                   addresses = allocate(handle[1], scope="local")
                                                   words = allocate(int64[…], scope="local")
        call_packed('f', array(c, 8), n)    =>     addresses[0] = address_of(c[0])
                                                   words[0] = …
                                                   call_extern("tilewright_call_packed", …)

    `runtime/packed.py` says what the words are.
    """
    return func.with_body(_Lowering()(func.body))


class _Lowering(StmtRewriter):
    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        """A packed call described and made."""
        call = node.value
        if not isinstance(call, Call) or call.op != "call_packed":
            return node
        name, *arguments = call.args
        assert isinstance(name, StringImm)
        text = name.value
        words: list[Expr] = [_word(n) for n in (len(text.encode()), *name_words(text), len(arguments))]
        positions: list[Expr] = []
        for argument in arguments:
            words += _describe(argument, positions)
        addresses = Buffer("addresses", [max(len(positions), 1)], "handle", "local")
        description = Buffer("words", [len(words)], "int64", "local")
        stores = [BufferStore(addresses, x, (op.const(i),)) for i, x in enumerate(positions)]
        stores += [BufferStore(description, x, (op.const(i),)) for i, x in enumerate(words)]
        made = op.call_extern("int32", SYMBOL, addresses.access_ptr("r"), description.access_ptr("r"))
        return Allocate(addresses, Allocate(description, seq(*stores, Evaluate(made))))


def _word(value: int) -> Expr:
    return op.const(value, "int64")


def _describe(argument: Expr, positions: list[Expr]) -> list[Expr]:
    """The words of one argument; the address of an array goes to `positions`."""
    if isinstance(argument, Call) and argument.op == "packed_array":
        address, dtype, *shape = argument.args
        assert isinstance(dtype, StringImm)
        positions.append(address)
        sizes = [op.cast("int64", n) for n in shape]
        return [_word(ARRAY), *map(_word, name_words(dtype.value, 2)), _word(len(shape)), *sizes]
    if argument.dtype.is_float:
        return [_word(FLOAT), op.reinterpret("int64", op.cast("float64", argument))]
    return [_word(INTEGER), op.cast("int64", argument)]
