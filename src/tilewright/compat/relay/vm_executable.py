"""Programs compiled for the virtual machine: what they are saved as, and read from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.compat.ir.module import as_module
from tilewright.compat.relay.bytecode import Bytecode, is_bytecode, read_bytecode, write_bytecode
from tilewright.compat.relay.bytecode_machine import BytecodeProgram
from tilewright.compat.relay.bytecode_text import bytecode_text
from tilewright.compat.relay.bytecode_writer import bytecode_of
from tilewright.compat.relay.executor import ExecutorFactory, single_target, with_params
from tilewright.compat.runtime.graph_json import GraphProgram, graph_of
from tilewright.compat.runtime.version import __version__
from tilewright.compile import compile as compile_model
from tilewright.errors import ArtifactError, UnsupportedError
from tilewright.relay.ir.type import TensorType, TupleType


class Executable(ExecutorFactory):
    """A program compiled for the virtual machine, with the methods of the classic executable."""

    @property
    def globals(self) -> list[str]:
        """The names of the program's functions; of a program read from a file the one that is entered."""
        if isinstance(self.executable, BytecodeProgram):
            return list(self.executable.program.globals)
        return ["main"] if self.ir_mod is None else [var.name for var in self.ir_mod.functions]

    @property
    def bytecode(self) -> str:
        """The instructions of the classic virtual machine as text. Raises `UnsupportedError` as `save` says."""
        program = self._bytecode()
        if program is None:
            raise UnsupportedError(
                "bytecode is written of programs without control flow, closures or sizes of a run; this one is run as "
                "segments of this package's own machine"
            )
        return bytecode_text(program)

    def _bytecode(self) -> Bytecode | None:
        if isinstance(self.executable, BytecodeProgram):
            return self.executable.program
        optimized = self.optimized_graph()
        if optimized is None:
            return None
        type_ = optimized["main"].body.checked_type
        if isinstance(type_, TupleType) and not all(isinstance(one, TensorType) for one in type_.fields):
            return None
        graph, constants = graph_of(optimized)
        return bytecode_of(graph, constants, __version__, isinstance(type_, TupleType))

    def save(self) -> tuple[bytearray, Executable]:
        """The arguments of `load_exec`: the program, and the library of its functions as a module to export.

        The program is bytecode of the classic machine; of one with control flow, closures or sizes of a run, for which
        none is written here, a description that tells it from others.
        """
        program = self._bytecode()
        if program is not None:
            return write_bytecode(program), self
        return bytearray(json.dumps(self._description()).encode()), self

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Any) -> Executable:
        """The program that `save` gave, of this package or the classic one, over the functions of `lib`.

        Raises `ArtifactError` where `lib` is another than `bytecode` describes.
        """
        if is_bytecode(bytecode):
            return _over_functions(read_bytecode(bytecode), lib)
        if not isinstance(lib, ExecutorFactory):
            raise ArtifactError("load_exec: this is no bytecode; a description of a program goes with its own library")
        made = Executable(lib.executable, lib.ir_mod, None)
        try:
            described = json.loads(bytes(bytecode))
        except ValueError:
            raise ArtifactError("load_exec: this is neither bytecode nor what save() gave here") from None
        if described != made._description():
            raise ArtifactError(
                f"load_exec: the code is of a program {described}, the library of {made._description()}"
            )
        return made

    def _description(self) -> dict[str, Any]:
        """The inputs and outputs of a program, as data of JSON."""
        ends = {"inputs": self.executable.inputs, "outputs": self.executable.outputs}
        described = {key: [[one.name, str(one.dtype), str(one.shape)] for one in specs] for key, specs in ends.items()}
        return {"format": "tilewright virtual machine", **described}


def _over_functions(program: Bytecode, lib: Any) -> Executable:
    """A program in bytecode with its library; one that this package compiled is run as it was compiled."""
    if isinstance(lib, ExecutorFactory) and not isinstance(lib.executable, GraphProgram | BytecodeProgram):
        names = [spec.name for spec in lib.executable.inputs]
        wanted = list(program.function("main").params)
        if names != wanted:
            raise ArtifactError(f"load_exec: the code is of a program of {wanted}, the library of one of {names}")
        return Executable(lib.executable, lib.ir_mod, None)
    over: Any = lib.executable if isinstance(lib, ExecutorFactory) else None
    functions = lib if over is None else over.library
    run: Any = BytecodeProgram(program, functions)
    return Executable(run, None, None)


def vm_compile(
    mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a module for the virtual machine: control flow, shapes that vary, data types."""
    bound, chosen = with_params(as_module(mod), params), single_target(target)
    return Executable(compile_model(bound, chosen, executor="vm"), bound, params, target=chosen)
