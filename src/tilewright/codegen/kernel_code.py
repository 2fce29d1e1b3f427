"""Lowered functions in the form that C can hold."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import UnsupportedError
from tilewright.target import Target
from tilewright.tir.stmt import IMPORT_LLVM, PrimFunc
from tilewright.tir.transform.pipeline import C, result


def for_c(funcs: Sequence[PrimFunc], target: Target) -> list[PrimFunc]:
    """`funcs` without vectors and 16-bit arithmetic, which C has not. Raises `UnsupportedError` for LLVM IR in them."""
    if any(IMPORT_LLVM in func.attrs for func in funcs):
        raise UnsupportedError("the pragma import_llvm brings LLVM IR, which text in C cannot hold: build for 'llvm'")
    return [result(C.code, func, target) for func in funcs]
