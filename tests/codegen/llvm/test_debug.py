"""Debug information: instructions lead back to the lines of the computation, for debuggers and for people."""

import inspect
import shutil
import subprocess

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.codegen.llvm import assembly, compile_object, emit, with_source_lines
from tilewright.target import Target

TARGET = Target("cpu")


def scaled():
    a = te.placeholder((64, 32), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] * 3.0, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=8)
    return te.lower(s, [a, b], name="scaled")


def line_with(text):
    lines, start = inspect.getsourcelines(scaled)
    return start + next(n for n, line in enumerate(lines) if text in line)


def test_the_text_is_the_same_without():
    assert "!dbg" not in emit([scaled()], TARGET) and "DILocation" in emit([scaled()], TARGET, lines=True)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_assembly_has_the_lines_between_its_instructions(architecture):
    target = (
        Target("cpu") if architecture == Target.host().architecture else Target(f"llvm -mtriple={architecture}-linux")
    )
    text = with_source_lines(assembly(emit([scaled()], target, lines=True), target))
    assert f"# test_debug.py:{line_with('te.compute')}: b = te.compute(" in text
    assert f"# test_debug.py:{line_with('split(')}: s[b].split(" in text
    assert ".loc" not in text and ".debug" not in text and "cfi" not in text
    plain = [line for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]
    usual = assembly(emit([scaled()], target), target).splitlines()
    assert plain == [line for line in usual if line.startswith("\t") and not line.startswith("\t.")]


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_knows_the_lines(tmp_path):
    path = tmp_path / "scaled.o"
    path.write_bytes(compile_object(emit([scaled()], TARGET, lines=True), TARGET))
    command = ["gdb", "-batch", "-ex", f"info line {__file__}:{line_with('te.compute')}", "-ex", "info line scaled"]
    told = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True).stdout
    assert f'Line {line_with("te.compute")} of "{__file__}" starts at address' in told.replace(
        '"test_debug.py"', f'"{__file__}"'
    )
    assert "<scaled" in told


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_code_with_lines_runs(target, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEBUG_INFO", "1")
    func = scaled()
    a, b = np.random.default_rng(0).random((64, 32), "float32"), np.zeros((64, 32), "float32")
    build(func, target)["scaled"](a, b)
    np.testing.assert_array_equal(b, a * np.float32(3))
