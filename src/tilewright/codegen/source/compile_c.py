"""C source to object code, by the C compiler of this machine or the one that the `export` extra brings."""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.target import Target

# No if-conversion: GCC 12 turns a guarded load into a vector load and a blend, which reads before and after what the
# guard admits. At the edge of a page that faults.
SEMANTICS = ("-fwrapv", "-ffp-contract=on", "-fno-math-errno", "-fno-tree-loop-if-convert")
_OPTIONS = ("-std=c99", "-O2", "-fPIC", "-fno-stack-protector", *SEMANTICS, "-c")


def compile_c(text: str, target: Target) -> bytes:
    """The ELF object that `text` compiles to for `target`.

    The compiler is `$CC`, else `cc`, else the one in the `ziglang` package. Raises `EnvironmentError_` where there is
    none, `InternalError` with the compiler's messages where it refuses the text.
    """
    compiler, is_zig = find_compiler()
    with tempfile.TemporaryDirectory(prefix="tilewright-c-") as directory:
        source, made = Path(directory, "kernels.c"), Path(directory, "kernels.o")
        source.write_text(text)
        command = [*compiler, *_OPTIONS, *_machine(target, is_zig), "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InternalError(f"the C compiler refused generated code: {shlex.join(command)}\n{done.stderr[-2000:]}")
        return made.read_bytes()


@functools.cache
def find_compiler() -> tuple[tuple[str, ...], bool]:
    """The command of the C compiler, and whether it is Zig's, which names processors in its own way.

    Raises EnvironmentError_ where there is none.
    """
    named = os.environ.get("CC", "")
    for words in (shlex.split(named), ["cc"], ["gcc"], ["clang"]):
        if words and shutil.which(words[0]):
            return tuple(words), False
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc"), True
    raise EnvironmentError_(
        "code for the target 'c' needs a C compiler: install one (Debian: apt install gcc), set CC, or "
        "`pip install tilewright[export]`, which brings Zig's"
    )


def _machine(target: Target, is_zig: bool) -> list[str]:
    """Options that select the processor."""
    if not target.is_host:
        return []
    if is_zig:
        return ["-mcpu=native"]
    return ["-march=native"] if target.architecture == "x86_64" else ["-mcpu=native"]
