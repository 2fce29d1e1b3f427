"""Conversion of compiled code to a form that a device loads: a file of ours, or a shared library for a board's worker.

The library is the code with its worker pool, linked for the device's machine, and one table (board.h) that says what is
in it. A model must be a single function for C: fixed sizes, no sequences.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tilewright.backend.compiled import Compiled
from tilewright.errors import InputError, UnsupportedError
from tilewright.rpc.board.loads import LIBRARY, PROGRAM
from tilewright.runtime.export import link_library
from tilewright.runtime.model import Model
from tilewright.runtime.module import FunctionInfo, Module, Param
from tilewright.runtime.native import native
from tilewright.support.dtype import DType
from tilewright.target import Target

#: The name of the library's functions for C.
_NAME = "board"


def packed_for(what: Any, loads: str) -> bytes:
    """The contents of a file with `what` (anything with `save`) for devices that load this.

    Raises `UnsupportedError` for what a board without Python cannot run, `EnvironmentError_` without a cross compiler.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-upload-") as folder:
        path = Path(folder) / "module.so"
        save_for(what, loads, path)
        return path.read_bytes()


def save_for(what: Any, loads: str, path: Path) -> None:
    """As `packed_for`, into a file, whose name ends in .so."""
    if loads == PROGRAM:
        raise UnsupportedError(
            "a board without an operating system builds C source: name it by --board in place of --key"
        )
    if loads != LIBRARY:
        what.save(path)
    elif isinstance(what, Model):
        what.export_library(path, _NAME, after=_model_text(what))
    elif isinstance(what, Compiled | Module):
        infos = what.functions.values() if isinstance(what, Module) else what.functions
        pool = native().pool if isinstance(what, Module) else what.pool()
        architecture = Target(what.target).architecture
        link_library(path, what.object_code, pool, architecture, _functions_text(list(infos), what.messages), _NAME)
    else:
        raise InputError(f"a board without Python runs models and modules, not a {type(what).__name__}")


@cache
def source(name: str) -> str:
    """The text of a file of C beside this one."""
    return (resources.files(__package__) / name).read_text()


_TABLE = """
const struct tilewright_board tilewright_board_table = {{
  .version = TILEWRIGHT_BOARD_VERSION, .description = {description},
  .parallel_run = (int32_t (*)(tilewright_entry, void *, int32_t))board_parallel_run,
  .with_worker_memory = board_with_memory, .set_processors = board_set_processors,
{fields}
}};
"""

_POOL = """
extern int32_t board_parallel_run(void *, void *, int32_t) __asm__("tilewright_parallel_run");
extern int32_t board_with_memory(void *, void *) __asm__("tilewright_call_with_worker_memory");
extern void board_set_processors(int32_t) __asm__("tilewright_set_processors");
"""


def _model_text(model: Model) -> str:
    """The table of a model, as C behind its own functions."""
    for spec in (*model.inputs, *model.outputs):
        if not spec.is_static or spec.dtype.is_string:
            raise UnsupportedError(
                f"{spec}: boards without Python run models of fixed sizes and arrays: fix sizes when compiling it"
            )
    described: dict[str, Any] = {"kind": "model", "target": model.target}
    described |= {name: [spec.to_json() for spec in getattr(model, name)] for name in ("inputs", "outputs")}
    sizes = [spec.nbytes for spec in (*model.inputs, *model.outputs)]
    outputs = [{"shape": list(spec.static_shape), "dtype": str(spec.dtype)} for spec in model.outputs]
    fields = (
        f"  .model = (int32_t (*)(const void *const *, void *const *, void *, int32_t))tilewright_{_NAME},\n"
        f"  .workspace_bytes = tilewright_{_NAME}_workspace_bytes, .error_text = tilewright_{_NAME}_error_text,\n"
        f"  .input_count = {len(model.inputs)}, .output_count = {len(model.outputs)},\n"
        f"  .sizes = (const int64_t[]){{{_list(map(str, sizes))}}},\n"
        f"  .names = (const char *const[]){{{_list(_quoted(spec.name) for spec in model.inputs)}}},\n"
        f"  .outputs = {_quoted(json.dumps(outputs))},"
    )
    return source("board.h") + _POOL + _TABLE.format(description=_quoted(json.dumps(described)), fields=fields)


def _functions_text(infos: list[FunctionInfo], messages: tuple[str, ...]) -> str:
    """The table of a library of functions."""
    described = {"kind": "library", "functions": [info.to_json() for info in infos]}
    parts = [source("board.h"), _POOL]
    rows = []
    for number, info in enumerate(infos):
        if info.workspace_function:
            raise UnsupportedError(f"{info.name} has working memory of symbolic size, which boards without Python lack")
        parameters = _list(_parameter(info, param) for param in info.params)
        parts.append(
            f'extern int32_t entry{number}(void *, void *) __asm__("{info.name}__entry");\n'
            f"static const struct tilewright_parameter parameters{number}[] = {{{parameters}}};\n"
        )
        rows.append(
            f"{{{_quoted(info.name)}, entry{number}, {len(info.params)}, parameters{number}, {info.workspace_bytes}, "
            f"{info.worker_workspace_bytes}}}"
        )
    fields = (
        f"  .function_count = {len(infos)}, .functions = (const struct tilewright_function[]){{{_list(rows)}}},\n"
        f"  .message_count = {len(messages)}, .messages = (const char *const[]){{{_list(map(_quoted, messages))}}},"
    )
    return "".join(parts) + _TABLE.format(description=_quoted(json.dumps(described)), fields=fields)


def _parameter(info: FunctionInfo, param: Param) -> str:
    dtype = DType(param.dtype)
    if param.is_scalar:
        letter = {"float32": "f", "float64": "d"}.get(str(dtype), "" if dtype.is_float else "i")
        if not letter or param.inferred:
            raise UnsupportedError(f"{info.name}: boards without Python do not take the parameter {param}")
        return f"{{'{letter}', {_quoted(str(dtype))}, 8}}"
    sizes = param.shape or (None,)
    known = all(isinstance(n, int) for n in sizes)
    count = math.prod(n for n in sizes if isinstance(n, int)) * dtype.numpy.itemsize if known else -1
    return f"{{'b', {_quoted(str(dtype))}, {count}}}"


def _list(parts: Iterable[str]) -> str:
    """Initializers; an array of C has at least one."""
    return ", ".join(parts) or "0"


def _quoted(text: str) -> str:
    """A string of C."""
    return '"' + "".join(_escaped(byte) for byte in text.encode()) + '"'


def _escaped(byte: int) -> str:
    plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if plain else f"\\{byte:03o}"
