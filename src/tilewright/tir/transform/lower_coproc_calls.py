"""Calls of a coprocessor as calls of C functions."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import UnsupportedError
from tilewright.tir.expr import Call, Expr, StringImm
from tilewright.tir.stmt import AttrStmt, PrimFunc, Stmt
from tilewright.tir.transform.coproc_sync import KEY
from tilewright.tir.visitor import Rewriter

TOKENS = ("dep_push", "dep_pop")


def lower_coproc_calls(func: PrimFunc, functions: Mapping[str, str]) -> PrimFunc:
    """`func` with tokens passed by the C functions that `functions` names, and boxes as the address of their start.

        dep_push(1, 2)                                            call_extern("my_push", 1, 2)
        with attribute("coproc_scope", 2):              =>        call_extern("my_gemm", address_of(S[0, 0]), …)
            call_extern("my_gemm", access_region("rw", S[0, 0], 4, 4), …)

    Runs after `coproc_sync`. Raises UnsupportedError for a token that `functions` has no name for.
    """
    return func.with_body(_Calls(functions)(func.body))


class _Calls(Rewriter):
    def __init__(self, functions: Mapping[str, str]) -> None:
        super().__init__()
        self.functions = functions

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """An instruction: its calls name the units."""
        return self(node.body) if node.key == KEY else self.rebuild(node)

    def visit_Call(self, node: Call) -> Expr:
        """A token or a box as C sees it."""
        if node.op == "access_region":
            return Call("handle", "address_of", (self(node.args[1]),))
        if node.op not in TOKENS:
            return self.rebuild(node)
        name = self.functions.get(node.op)
        if name is None:
            raise UnsupportedError(f"the accelerator declares no C function for {node.op}; add it to functions=")
        return Call("int32", "call_extern", (StringImm(name), *node.args))
