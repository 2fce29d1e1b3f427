"""Compiled models and functions as shared libraries that classic programs load.

A library has its functions by the classic packed interface, and of a model a graph over its kernels with all weights
(`GraphExecutorFactory`), so that a classic runtime runs it. Beside these lies what this package itself loads, the file
of the module or model as bytes: with it the model runs as it was compiled, as one program.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.backend import backend_of
from tilewright.backend.compiled import Compiled
from tilewright.backend.cpu.packed_library import write_data_library, write_packed_library
from tilewright.compat.runtime.module_blob import SYMBOL, factory_blob
from tilewright.driver.build import extract_tasks
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.memory.in_place import is_renamed
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

#: The symbol under which a library has our own file.
OWN = "__tilewright_module"


def saved(code: Any) -> bytes:
    """The file that `code` saves, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        code.save(path)
        return path.read_bytes()


def is_library(path: str | os.PathLike[str]) -> bool:
    """True if a file of this name is to be a shared library."""
    return str(path).endswith((".so", ".dll", ".dylib"))


def write_functions(path: str | os.PathLike[str], code: Compiled, main: str) -> None:
    """The library of functions that `tvm.build` compiled."""
    write_packed_library(path, code, main, {OWN: saved(code)})


def is_graph(mod: IRModule) -> bool:
    """True if an optimized module is a graph of kernels that a classic executor runs: sizes fixed, no control flow."""
    nodes = list(post_order(mod["main"].body))
    is_fixed = all(isinstance(extent, int) for shape in _shapes(mod) for extent in shape)
    kinds = (Call, Constant, Function, Op, Tuple, TupleGetItem, Var)
    is_plain = all(
        isinstance(node, kinds) and (not isinstance(node, Call) or isinstance(node.op, Function)) for node in nodes
    )
    return is_fixed and is_plain


def kernels_of(mod: IRModule, target: Target) -> list[PrimFunc]:
    """The kernels of an optimized module by the names of its graph (`is_graph`)."""
    calls = [node for node in post_order(mod["main"].body) if isinstance(node, Call)]
    tasks, names = extract_tasks(calls)
    used = {names[call] for call in calls if not is_renamed(call)}
    return [lower_function(task.function, task.name, target) for task in tasks if task.name in used]


def _shapes(mod: IRModule) -> Iterator[Sequence[Any]]:
    main = mod["main"]
    for expr in (*main.params, *post_order(main.body)):
        for type_ in tensor_types(expr.checked_type):
            if isinstance(type_, TensorType):
                yield type_.shape


def write_model(
    path: str | os.PathLike[str],
    model: bytes,
    graph: str,
    params: Any,
    name: str,
    funcs: list[PrimFunc],
    target: Target,
) -> None:
    """The library of a compiled `model`, with its kernels and the graph over them."""
    blobs = {SYMBOL: factory_blob(graph, params, name), OWN: model}
    code = backend_of(target).compiled(funcs, here=False)
    assert isinstance(code, Compiled)  # classic libraries are of processors
    write_packed_library(path, code, funcs[0].name, blobs)


def write_own(path: str | os.PathLike[str], model: bytes, target: Target) -> None:
    """A library with nothing but our own file, of a program that no classic graph holds."""
    write_data_library(path, target, {OWN: model})
