"""Shared libraries with the classic packed interface, made without a linker, and code that runs their workers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tilewright.backend.compiled import Compiled
from tilewright.backend.cpu.packed_abi import packed_text
from tilewright.codegen.native.launch import TEXT
from tilewright.codegen.native.pool_code import compile_text
from tilewright.runtime.link import split_objects
from tilewright.runtime.shared_library import write_shared_library
from tilewright.target import Target


def write_packed_library(
    path: str | os.PathLike[str],
    code: Compiled,
    main: str,
    blobs: Mapping[str, bytes] | None = None,
) -> None:
    """Write the library `path` of `code`, with `blobs` beside it; `main` is what it is called by.

    Raises `ArtifactError` for code that no library can hold.
    """
    packed = packed_text(code.functions, code.messages, main)
    glue = compile_text(packed.text, Target(code.target).architecture)
    write_shared_library(path, [*split_objects(code.object_code), glue], packed.exports, blobs)


def write_data_library(path: str | os.PathLike[str], target: Target, blobs: Mapping[str, bytes]) -> None:
    """Write the library `path` of `blobs` alone, for the machine of `target`."""
    empty = compile_text("@tilewright_empty = constant i8 0", target.architecture)
    write_shared_library(path, [empty], {}, blobs)


def launch_code() -> bytes:
    """The object code for this machine by which packed functions start workers of this process's pool."""
    return compile_text(TEXT)
