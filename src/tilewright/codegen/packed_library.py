"""Compiled functions as a shared library with the classic packed interface, made without a linker."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tilewright.codegen.build import Compiled
from tilewright.codegen.native.pool_code import compile_text
from tilewright.codegen.packed_abi import packed_text
from tilewright.runtime.link import split_objects
from tilewright.runtime.shared_library import write_shared_library
from tilewright.target import Target
from tilewright.tir.expr import Call
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.visitor import collect


def write_packed_library(
    path: str | os.PathLike[str],
    code: Compiled,
    funcs: Sequence[PrimFunc],
    main: str,
    blobs: Mapping[str, bytes] | None = None,
) -> None:
    """Write the library `path` of the `code` of `funcs`, with `blobs` beside it; `main` is what it is called by.

    Raises `ArtifactError` for code that no library can hold.
    """
    serial = {func.name for func in funcs if not _is_parallel(func)}
    packed = packed_text(code.functions, code.messages, main, serial)
    glue = compile_text(packed.text, Target(code.target).architecture)
    write_shared_library(path, [*split_objects(code.object_code), glue], packed.exports, blobs)


def _is_parallel(func: PrimFunc) -> bool:
    """Whether several workers share the function's work, or it calls functions that may."""
    return any(call.op in ("num_workers", "barrier", "call_function") for call in collect(func.body, Call))
