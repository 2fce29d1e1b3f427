"""`tvm.testing`: its plugin, fixtures and marks, in suites that pytest runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_CONFTEST = """
from tilewright import compat; compat.install()
pytest_plugins = ["tvm.testing.plugin"]
"""


def _suite(folder: Path, text: str, *options: str, **environment: str) -> str:
    """The output of pytest on a suite of one file with the plugin."""
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_suite.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rsx", "-p", "no:cacheprovider", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    return done.stdout + done.stderr


def test_parameters_vary_together_in_modules_and_classes(tmp_path: Path) -> None:
    text = """
import tvm.testing
a, b = tvm.testing.parameters((1, 10), (2, 20), ids=["one", "two"])
c, d = tvm.testing.parameters((3, 30))
size = tvm.testing.parameter(4, 5)
kind = tvm.testing.parameter(by_dict={"wide": (8,), "flat": ()})

def test_pairs(a, b, c, d):
    assert b == 10 * a and (c, d) == (3, 30)

def test_one_of_them(b, size):
    assert b in (10, 20) and size in (4, 5)

class TestInAClass:
    low, high = tvm.testing.parameters((0, 1), (5, 6))
    size = tvm.testing.parameter(9)

    @tvm.testing.fixture
    def area(self, low, size):
        return low * size

    def test_fixtures(self, low, high, area, kind):
        assert high == low + 1 and area == 9 * low and isinstance(kind, tuple)
"""
    shown = _suite(tmp_path, text, "-vv")
    assert "10 passed" in shown, shown
    assert "test_pairs[one-" in shown and "wide" in shown
    with pytest.raises(ValueError, match="tuples of one length"):
        import tvm.testing

        tvm.testing.parameters((1, 2), (3,))


def test_cached_fixtures_are_computed_once_and_copied(tmp_path: Path) -> None:
    text = """
import numpy as np
import tvm.testing
seed, listed = tvm.testing.parameter(1, 2), tvm.testing.parameter([1])
repeat = tvm.testing.parameter(*range(3))
calls = []

@tvm.testing.fixture(cache_return_value=True)
def data(seed):
    calls.append(seed)
    return np.full(2, seed)

@tvm.testing.fixture(cache_return_value=True)
def of_a_list(listed):
    return listed * 2

def test_data(data, seed, repeat):
    assert (data == seed).all()
    data[:] = -1
    assert calls.count(seed) == 1

def test_what_has_no_hash(of_a_list):
    assert of_a_list == [1, 1]
"""
    shown = _suite(tmp_path, text)
    assert "7 passed" in shown, shown


def test_targets_of_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import pytest, tvm, tvm.testing
seen = []

def test_auto(target, dev):
    assert dev == tvm.device(target) and tvm.target.Target(target).kind.name == target.split()[0]
    seen.append(target)

def test_all_were_seen():
    assert seen == ["llvm", "llvm -mcpu=x86-64"] == [t for t, _ in tvm.testing.enabled_targets()]

@tvm.testing.exclude_targets("llvm -mcpu=x86-64")
def test_without_one(target):
    assert target == "llvm"

@tvm.testing.known_failing_targets("llvm")
def test_fails(target):
    assert False

@tvm.testing.parametrize_targets("llvm", "cuda")
def test_named(target, dev):
    assert target == "llvm"

@tvm.testing.parametrize_targets
def test_enabled(target):
    assert target.startswith("llvm")

@pytest.mark.parametrize("target, n", [("c", 1), ("cuda", 1)])
def test_own(target, n):
    assert (target, n) == ("c", 1)

@tvm.testing.requires_cuda
def test_on_a_gpu():
    assert False

@pytest.mark.parametrize("kind", [pytest.param("vulkan", marks=tvm.testing.requires_vulkan()), "llvm"])
def test_marks_as_a_list(kind):
    assert kind == "llvm"

@tvm.testing.uses_gpu
@tvm.testing.requires_llvm
@tvm.testing.requires_package("no_such_package_anywhere")
def test_needs_a_package():
    assert False

@tvm.testing.slow
@tvm.testing.requires_package("numpy")
def test_has_its_package():
    assert tvm.testing.device_enabled("llvm") and not tvm.testing.device_enabled("cuda")
"""
    monkeypatch.setenv("TVM_TEST_TARGETS", "llvm; llvm -mcpu=x86-64; cuda")
    shown = _suite(tmp_path, text, "--strict-markers")
    assert "10 passed, 5 skipped, 2 xfailed" in shown, shown
    assert "it needs the package no_such_package_anywhere" in shown and "nothing runs on cuda here" in shown


def test_main_runs_the_calling_file(tmp_path: Path) -> None:
    script = tmp_path / "check_it.py"
    script.write_text(
        "import tvm.testing\n"
        "def test_target(target, dev): assert dev.exist\n"
        "if __name__ == '__main__': tvm.testing.main()\n"
    )
    command = [sys.executable, "-m", "tilewright.compat", str(script), "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
