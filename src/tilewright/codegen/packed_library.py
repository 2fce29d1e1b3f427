"""Compiled functions as a shared library with the classic packed interface, made without a linker."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tilewright.codegen.build import Compiled
from tilewright.codegen.native.pool_code import compile_text
from tilewright.codegen.packed_abi import packed_text
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
