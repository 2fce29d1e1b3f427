"""The forms that the kernels of a whole model may take: object code by LLVM or a C compiler, or C source."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.codegen.source.c import emit_c, emit_static_c
from tilewright.codegen.source.compile_c import compile_c
from tilewright.errors import UnsupportedError
from tilewright.target import Target
from tilewright.tir.stmt import IMPORT_LLVM, PrimFunc
from tilewright.tir.transform.pipeline import C, result

#: Functions and target to their code, and the seconds that writing it took before a compiler got it.
Form = Callable[[Sequence[PrimFunc], Target], tuple[bytes, float]]


def object_code(funcs: Sequence[PrimFunc], target: Target) -> tuple[bytes, float]:
    """One ELF object of `funcs`; for the target "c" by way of C and this machine's C compiler."""
    start = time.perf_counter()
    if target.kind == "c":
        text = emit_c(for_c(funcs, target)).text
        seconds = time.perf_counter() - start
        return compile_c(text, target), seconds
    text = emit_module(funcs, target).text
    seconds = time.perf_counter() - start
    return compile_object(text, target), seconds


def c_source(funcs: Sequence[PrimFunc], target: Target) -> tuple[bytes, float]:
    """C99 text of `funcs` as static functions, which follows the text of `c_prelude`."""
    start = time.perf_counter()
    return emit_static_c(for_c(funcs, target)).text.encode(), time.perf_counter() - start


def for_c(funcs: Sequence[PrimFunc], target: Target) -> list[PrimFunc]:
    """`funcs` without vectors and 16-bit arithmetic, which C has not. Raises `UnsupportedError` for LLVM IR in them."""
    if any(IMPORT_LLVM in func.attrs for func in funcs):
        raise UnsupportedError("the pragma import_llvm brings LLVM IR, which text in C cannot hold: build for 'llvm'")
    return [result(C.code, func, target) for func in funcs]
