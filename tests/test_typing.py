"""Signatures as type checkers see them: a user's program, read by mypy and pyright, and no bare `Any`."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.runtime import Executable, Model, Tensor

_HERE = Path(__file__).parent
_PROGRAM = _HERE / "typing" / "user_program.py"

_PUBLIC: list[Callable[..., object]] = [
    tw.compile, tw.load, tw.initial_states, tw.metadata, tw.torch_report, tw.Target.__new__,
    *(getattr(kind, name) for kind in (Model, Executable)
      for name in ("__call__", "run", "time", "profile", "save", "export_library", "set_threads")),
    *(getattr(Tensor, name) for name in (
        "__init__", "empty", "zeros", "from_numpy", "from_dlpack", "from_buffer", "numpy", "__array__", "__dlpack__")),
]  # fmt: skip


@pytest.mark.parametrize("function", _PUBLIC, ids=lambda function: function.__qualname__)
def test_no_argument_or_result_is_any(function: Callable[..., object]) -> None:
    signature = inspect.signature(function)
    annotations = [
        parameter.annotation for name, parameter in signature.parameters.items() if name not in ("self", "cls")
    ]
    for annotation in (*annotations, signature.return_annotation):
        assert annotation is not inspect.Parameter.empty
        assert not re.search(r"\bAny\b", str(annotation)), f"{function.__qualname__}: {annotation}"


def test_mypy_reads_a_users_program() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "tests/typing/user_program.py"]
    done = subprocess.run(command, cwd=_HERE.parent, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_reads_a_users_program(tmp_path: Path) -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    shutil.copy(_PROGRAM, tmp_path)
    settings = {
        "include": [_PROGRAM.name],
        "extraPaths": [str(Path(tw.__file__).parents[1])],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "enableTypeIgnoreComments": False,  # those are mypy's
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [pyright, "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    try:
        told = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.skip(f"pyright does not start here: {(done.stdout + done.stderr)[-300:]}")
    assert told["summary"]["filesAnalyzed"] == 1
    found = [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in told["generalDiagnostics"]]
    assert not found, "\n".join(found)
