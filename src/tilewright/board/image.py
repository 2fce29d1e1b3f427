"""A model's C source and the program around it, compiled and linked for a board; the bytes that each part takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.board.boards import Board
from tilewright.board.program import linker_script, program_text
from tilewright.driver.build_source import Exported, SourceModel
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.signature import TensorSpec
from tilewright.target import Target, VtaTarget

#: As the comment on top of a model's source says, and what keeps unused functions out of the image.
OPTIONS = (
    "-std=gnu99", "-O2", "-fwrapv", "-ffp-contract=on", "-fno-math-errno", "-fno-tree-loop-if-convert",
    "-fno-strict-aliasing", "-ffreestanding", "-ffunction-sections", "-fdata-sections",
    "-fno-tree-loop-distribute-patterns",
)  # fmt: skip

#: Calls at the begin and end of functions; not of those whose names contain these texts, which kernels call.
_COUNTED = ("-finstrument-functions", "-finstrument-functions-exclude-function-list=tilewright_")


@dataclass(frozen=True)
class BoardProgram:
    """Models in C: the name of the file, how they are called, the text of the source and of the header.

    `calls` has each model's name with its numbers of inputs and outputs; they run one after the other in one workspace,
    and `interface` has the inputs and outputs of all. `vta` are the figures of VTA's configuration where it runs
    programs, `launches` their names in order.
    """

    name: str
    interface: CInterface
    source: str
    header: str
    vta: tuple[tuple[str, int], ...] = ()
    launches: tuple[str, ...] = ()
    calls: tuple[tuple[str, int, int], ...] = ()

    @property
    def functions(self) -> tuple[tuple[str, int, int], ...]:
        """The models that it calls, each with its numbers of inputs and outputs."""
        return self.calls or ((self.name, len(self.interface.inputs), len(self.interface.outputs)),)

    @staticmethod
    def of(files: Exported, target: Target) -> BoardProgram:
        """The program of models as `export_source` or `export_image` has written them for a target."""
        kernels = [call for model in files.models for call in model.manifest.kernels]
        launches = tuple(call.source_text for call in kernels if call.choice.get("template") == "vta")
        figures = target.figures if isinstance(target, VtaTarget) else ()
        calls = tuple((m.name, len(m.manifest.inputs), len(m.manifest.outputs)) for m in files.models)
        name, texts = files[1].stem, (files[0].read_text(), files[1].read_text())
        return BoardProgram(name, _joined(files.models), *texts, figures, launches, calls)


def _joined(models: Sequence[SourceModel]) -> CInterface:
    """One interface of models that run one after the other in one workspace."""
    interfaces = [model.c_model.interface for model in models]
    if len(models) == 1:
        return interfaces[0]

    def named(side: str) -> tuple[TensorSpec, ...]:
        found = [(model.name, spec) for model in models for spec in getattr(model.c_model.interface, side)]
        return tuple(replace(spec, name=f"{name}.{spec.name}") for name, spec in found)

    largest = max(interfaces, key=lambda one: one.workspace_size)
    errors = max((one.errors for one in interfaces), key=len)
    return replace(largest, inputs=named("inputs"), outputs=named("outputs"), errors=errors)


@dataclass(frozen=True)
class Sizes:
    """Bytes of a model on a board: code, constants, workspace; `stack` by function as the compiler counts it."""

    code: int
    constants: int
    workspace: int
    functions: Mapping[str, int]
    stack: Mapping[str, int]

    @property
    def rom(self) -> int:
        """Code and constants."""
        return self.code + self.constants


def require_compiler(board: Board) -> None:
    """Raise `EnvironmentError_` where the compiler of a board's processor is not installed."""
    if shutil.which(f"{board.prefix}gcc") is None:
        package = f"gcc-{board.prefix.removesuffix('-')}"
        raise EnvironmentError_(f"the board {board.name} needs {board.prefix}gcc (Debian: apt install {package})")


def require_tools(board: Board) -> None:
    """Raise `EnvironmentError_` where the compiler or the emulator of a board is not installed."""
    if not board.emulator:
        raise EnvironmentError_(
            f"{board.name} is a processor, and no board of qemu's: one on a serial line is lent by `tilewright rpc "
            f"server --board {board.name} --serial LINE --flash COMMAND`, and reached by --tracker or --device"
        )
    require_compiler(board)
    if shutil.which(board.emulator[0]) is None:
        package = "qemu-system-arm" if board.emulator[0] == "qemu-system-arm" else "qemu-system-misc"
        raise EnvironmentError_(f"the board {board.name} needs {board.emulator[0]} (Debian: apt install {package})")


def build_image(
    program: BoardProgram, board: Board, cpu: str = "", kernels: bool = False, main: str = ""
) -> tuple[bytes, Sizes]:
    """The image of a model for a board, as ELF, and its sizes; `cpu` where the code is for another of its kind.

    With `kernels` it counts each of them (`kernel_counts.py`); `main` is the C around the model, without one that of
    `program.py`.

    Raises `EnvironmentError_` without the compiler, `UnsupportedError` where the model does not fit, with the words of
    the linker.
    """
    require_tools(board)
    if program.interface.is_symbolic:
        raise UnsupportedError("a board runs models of fixed sizes: fix them, as by --input-shapes")
    compiler, flags = f"{board.prefix}gcc", board.flags(cpu)
    with tempfile.TemporaryDirectory(prefix="tilewright-board-") as folder:
        work = Path(folder)
        (work / f"{program.name}.h").write_text(program.header)
        (work / "board_model.h").write_text(f'#include "{program.name}.h"\n')
        (work / "model.c").write_text(program.source)
        main = main or program_text(board, program.functions, program.interface, kernels)
        (work / "main.c").write_text(main)
        (work / "board.ld").write_text(linker_script(board))
        _run([compiler, *flags, *OPTIONS, "-c", "main.c", "-o", "main.o"], work)
        model_flags = (*flags, *(_COUNTED if kernels else ()))
        sizes = compiled_sizes(work, board.prefix, model_flags, program.interface.workspace_size)
        link = ["-nostdlib", "-Wl,--gc-sections", "-T", "board.ld", "main.o", "model.o", "-lgcc", "-o", "image.elf"]
        _run([compiler, *flags, *link], work)
        return (work / "image.elf").read_bytes(), sizes


def compiled_sizes(work: Path, prefix: str, flags: Sequence[str], workspace: int) -> Sizes:
    """Compile `model.c` in the folder `work` to `model.o`; the bytes of its parts."""
    _run([f"{prefix}gcc", *flags, *OPTIONS, "-fstack-usage", "-c", "model.c", "-o", "model.o"], work)
    listed = _run([f"{prefix}nm", "-S", "model.o"], work)
    functions, code = {}, 0
    for line in listed.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT":
            functions[words[3].split(".")[0]] = int(words[1], 16)  # clones are named .constprop
    constants = 0
    for line in _run([f"{prefix}size", "-A", "model.o"], work).splitlines():
        found = re.match(r"\.(text|rodata)\S*\s+(\d+)", line)
        if found:
            code += int(found[2]) * (found[1] == "text")
            constants += int(found[2]) * (found[1] == "rodata")
    stack = {}
    for line in (work / "model.su").read_text().splitlines():
        name, size, _ = line.split("\t")
        stack[name.split(":")[-1].split(".")[0]] = int(size)
    return Sizes(code, constants, workspace, functions, stack)


def _run(command: list[str], work: Path) -> str:
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        if "will not fit" in words or "does not fit" in words or "overflowed" in words:
            raise UnsupportedError(f"the model does not fit the board's memories; the linker says:\n{words}")
        raise EnvironmentError_(f"building for the board failed ({command[0]}); it says:\n{words}")
    return done.stdout
