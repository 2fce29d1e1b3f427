"""C source of a model compiled for an enclave: the header that its program includes, and the symbols it needs."""

from __future__ import annotations

import importlib.resources
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.elf import SHN_UNDEF, parse_object

#: What freestanding C may call: compilers write copies as calls of these, whatever the source has.
ALLOWED = frozenset({"memcpy", "memset"})
#: As the comment on top of a model's source requires; buffers of several types share memory.
OPTIONS = ("-std=gnu99", "-O2", *SEMANTICS, "-fno-strict-aliasing", "-ffreestanding")

_HEADER = """\
#include "{header}.h"
#define MODEL_RUN tilewright_{name}_run
#define SET_WEIGHTS tilewright_{header}_set_weights
#define WORKSPACE_BYTES {workspace}u
#define WORKSPACE_ALIGNMENT {alignment}u
#define WEIGHTS_BYTES {weights}u
#define INPUTS {inputs}u
#define OUTPUTS {outputs}u
#define INPUT_BYTES {input_bytes}
#define OUTPUT_BYTES {output_bytes}
#define INPUT_SIZES {input_sizes}
#define OUTPUT_SIZES {output_sizes}
"""


@dataclass(frozen=True)
class EnclaveSource:
    """A model in C without a library: its name there, how it is called, its files, what made it."""

    name: str
    interface: CInterface
    source: Path
    header: Path
    weights: Path | None
    target: str
    version: str

    def __post_init__(self) -> None:
        if self.interface.is_symbolic:
            raise UnsupportedError("an enclave runs models of fixed sizes: fix them, as by --input-shapes")

    @property
    def weights_bytes(self) -> int:
        """The bytes of the file of weights; 0 where they stand in the source."""
        return self.weights.stat().st_size if self.weights else 0

    def program_header(self) -> str:
        """The header that `static.c` and `module.c` include."""
        interface = self.interface
        inputs, outputs = interface.inputs, interface.outputs
        listed = {}
        for kind, specs in (("input", inputs), ("output", outputs)):
            sizes = [spec.dtype.itemsize for spec in specs]
            listed[f"{kind}_bytes"] = ", ".join(str(spec.nbytes) for spec in specs) or "0"
            listed[f"{kind}_sizes"] = ", ".join(map(str, sizes)) or "1"
        return _HEADER.format(
            header=self.header.stem,
            name=self.name,
            workspace=interface.workspace_size,
            alignment=interface.alignment,
            weights=self.weights_bytes,
            inputs=len(inputs),
            outputs=len(outputs),
            **listed,
        )

    def write_to(self, work: Path, program: str) -> None:
        """Put the model, its headers and `program`, a C file of this package, into the folder `work`."""
        (work / "model.c").write_bytes(self.source.read_bytes())
        (work / self.header.name).write_bytes(self.header.read_bytes())
        (work / "enclave_model.h").write_text(self.program_header())
        (work / program).write_text(package_text(program))


def package_text(name: str) -> str:
    """A C file of this package."""
    return (importlib.resources.files(__package__) / name).read_text(encoding="utf-8")


def undefined_symbols(code: bytes) -> set[str]:
    """The symbols that a relocatable object needs of others, as `nm -u` lists them."""
    symbols = parse_object(code).symbols
    return {symbol.name for symbol in symbols if symbol.section == SHN_UNDEF and symbol.name}


def allowed_symbols(code: bytes, more: Sequence[str] = ()) -> None:
    """Raise `InputError` for an object that needs other symbols than memcpy, memset and `more`."""
    others = sorted(undefined_symbols(code) - ALLOWED - set(more))
    if others:
        raise InputError(
            f"the C source calls {', '.join(others)}, which an enclave does not have: write it with --freestanding"
        )


def compile_with(command: Sequence[str], work: Path, what: str) -> None:
    """Run a compiler in `work`. Raises `EnvironmentError_` with its words where it fails or is not there."""
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentError_(f"{what} needs the compiler {command[0]}: {error.strerror or error}") from None
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise EnvironmentError_(f"{what} failed; {command[0]} says:\n{words}")
