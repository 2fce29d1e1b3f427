"""`import tilewright` is light, and its public names hold whatever is imported first."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import tilewright

ROOT = Path(__file__).resolve().parent.parent


def output_of(program: str) -> list[str]:
    """The words that a fresh interpreter prints when it runs `program`."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_importing_the_package_imports_almost_nothing() -> None:
    modules = output_of("import sys; import tilewright; print(*sys.modules)")
    assert [name for name in modules if name.startswith("tilewright")] == ["tilewright"]
    assert not {"numpy", "llvmlite", "onnx", "click"} & set(modules)


def test_the_compiler_itself_imports_no_frontend_package() -> None:
    modules = set(output_of("import sys; import tilewright as tw; tw.compile; print(*sys.modules)"))
    assert not {"onnx", "google.protobuf", "onnxruntime", "click", "rich", "cffi"} & modules


def test_loading_an_artifact_needs_the_runtime_only() -> None:
    modules = output_of("import sys; import tilewright as tw; tw.load; print(*sys.modules)")
    assert {name.split(".")[1] for name in modules if name.startswith("tilewright.")} == {
        "errors",
        "load",
        "runtime",
        "support",
    }


def test_compile_stays_a_function_when_its_module_is_imported_first() -> None:
    program = "from tilewright.compile import Records; import tilewright as tw; print(type(tw.compile).__name__)"
    assert output_of(program) == ["function"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(tilewright.__file__).parent / "py.typed").is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["tilewright"]
    assert "Typing :: Typed" in settings["project"]["classifiers"]
