"""`tvm.contrib.cc`, `clang` and `download`: the C compiler of this machine, and files from the net."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.codegen.source.compile_c import find_compiler
from tilewright.errors import EnvironmentError_, InputError


def create_shared(output: str, objects: Any, options: Sequence[str] | None = None, cc: str | None = None) -> None:
    """Link objects, or compile C sources, into the shared library `output`.

    Raises `EnvironmentError_` without a C compiler, `InputError` with its messages where it refuses.
    """
    _compile(["-shared", "-fPIC"], output, objects, options, cc)


def create_executable(output: str, objects: Any, options: Sequence[str] | None = None, cc: str | None = None) -> None:
    """Link objects, or compile C sources, into the program `output`; errors as of `create_shared`."""
    _compile([], output, objects, options, cc)


def _compile(flags: Sequence[str], output: str, objects: Any, options: Any, cc: str | None) -> None:
    compiler = [cc] if cc else list(find_compiler()[0])
    inputs = [objects] if isinstance(objects, str) else list(objects)
    _run([*compiler, *flags, "-o", str(output), *map(str, inputs), *(options or ())])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentError_(f"there is no compiler {command[0]!r}; install it or leave cc= out") from None
    if done.returncode:
        raise InputError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def cross_compiler(
    compile_func: Any,
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., None]:
    """A function like `create_shared` that runs another compiler: its name, or a function of (output, objects).

    It makes files of the kind `output_format` ("so"), links `add_files` along, and tells the target by
    `get_target_triple`.
    """

    def run(output: str, objects: Any, more: Sequence[str] | None = None) -> None:
        objects = [*([objects] if isinstance(objects, str) else objects), *(add_files or ())]
        if callable(compile_func):
            compile_func(output, objects, options=[*(options or ()), *(more or ())])
        else:
            create_shared(output, objects, [*(options or ()), *(more or ())], compile_func)

    run.output_format = output_format or "so"  # type: ignore[attr-defined]
    run.get_target_triple = get_target_triple  # type: ignore[attr-defined]
    return run


def get_cc() -> str | None:
    """The C compiler, or None."""
    try:
        return find_compiler()[0][0]
    except EnvironmentError_:
        return None


def find_clang(required: bool = True) -> list[str]:
    """The paths of Clang; raises `EnvironmentError_` if one is required and there is none."""
    found = [path for path in (shutil.which("clang"),) if path]
    if required and not found:
        raise EnvironmentError_("there is no clang on the PATH")
    return found


def create_llvm(
    inputs: Any, output: str | None = None, options: Sequence[str] | None = None, cc: str | None = None
) -> str:
    """LLVM IR of C++ sources, texts or the names of files, by Clang or the one in the `ziglang` package.

    It is written to `output`, too. Raises `EnvironmentError_` without a compiler, `InputError` with its messages.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for index, source in enumerate([inputs] if isinstance(inputs, str) else inputs):
            names.append(str(source))
            if not names[-1].endswith(_SOURCES) or "\n" in names[-1]:
                names[-1] = str(Path(folder) / f"input{index}.cc")
                Path(names[-1]).write_text(source)
        made = output or str(Path(folder) / "output.ll")
        _run([*([cc] if cc else _clang()), "-S", "-emit-llvm", "-O2", *(options or ()), "-o", made, *names])
        return Path(made).read_text()


#: How names of sources end that are files, not texts.
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".ll")


def _clang() -> list[str]:
    found = find_clang(required=False)
    if found:
        return found[:1]
    if importlib.util.find_spec("ziglang") is None:
        raise EnvironmentError_(
            "create_llvm needs Clang: install it (Debian: apt install clang), or `pip install tilewright[export]`, "
            "which brings Zig's"
        )
    # Zig checks for undefined behaviour and writes debug information unless an option says otherwise.
    return [sys.executable, "-m", "ziglang", "c++", "-g0", "-fno-sanitize=undefined"]


def download_testdata(url: str, relpath: str, module: Any = None, overwrite: bool = False) -> str:
    """The file at `url`, kept below ~/.tvm_test_data. Raises `EnvironmentError_` where it cannot be fetched."""
    parts = [module] if isinstance(module, str) else list(module or ())
    path = Path.home().joinpath(".tvm_test_data", *parts, relpath)
    if overwrite or not path.exists():
        download(url, str(path), overwrite)
    return str(path)


def download(url: str, path: str, overwrite: bool = False, **_: Any) -> None:
    """Fetch `url` into a file that is not there yet. Raises `EnvironmentError_` where it cannot be fetched."""
    target = Path(path)
    if target.exists() and not overwrite:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=60) as source:
            target.write_bytes(source.read())
    except OSError as error:
        raise EnvironmentError_(f"{url} cannot be fetched: {error}; put the file at {target}") from None
