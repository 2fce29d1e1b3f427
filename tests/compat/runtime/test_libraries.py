"""Compiled functions written to files and read back, and the code of C targets."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import ArtifactError, InputError, InternalError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")

TARGETS = ["llvm", pytest.param("c", marks=pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"))]


@pytest.mark.parametrize("target", TARGETS)
def test_functions_are_written_and_read(tmp_path: Path, target: str) -> None:
    import tvm
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 3.0, name="b")
    s = te.create_schedule(b.op)
    both = [tvm.lower(s, [a, b], name="triple"), tvm.lower(s, [a, b], name="again")]
    tvm.build(both, target=target).export_library(tmp_path / "triple.so")
    loaded = tvm.runtime.load_module(str(tmp_path / "triple.so"))
    x, out = tvm.nd.array(np.arange(5, dtype="float32")), tvm.nd.empty((5,))
    for function in (loaded, loaded["again"], loaded.get_function("triple"), loaded.entry_func):
        out[:] = 0
        function(x, out)
        np.testing.assert_array_equal(out.numpy(), x.numpy() * 3)
    assert loaded.entry_name == "triple" and loaded.time_evaluator("again", tvm.cpu(), number=2)(x, out).mean > 0
    with pytest.raises(InputError, match="no function 'other'; it has: triple, again"):
        loaded["other"]


def test_what_is_no_library(tmp_path: Path) -> None:
    import tvm

    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ArtifactError):
        tvm.runtime.load_module(tmp_path / "text.so")


@pytest.mark.parametrize("target", TARGETS)
def test_intrinsics_by_classic_names(target: str) -> None:
    import tvm
    from tvm import te

    a = te.placeholder((6,), name="a")
    x = np.array([-2.5, -0.5, 0.49, 1.5, 2.0, 7.25], "float32")
    for name, expected in {
        "tir.floor": np.floor(x), "tir.ceil": np.ceil(x), "tir.round": np.rint(x), "fabs": np.abs(x),
    }.items():  # fmt: skip
        b = te.compute((6,), lambda i, name=name: tvm.tir.call_intrin("float32", name, a[i]), name="b")
        out = tvm.nd.empty((6,))
        tvm.build(te.create_schedule(b.op), [a, b], target)(tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), expected)
    bits = te.compute((6,), lambda i: tvm.tir.call_intrin("int32", "tir.reinterpret", a[i]), name="bits")
    out = tvm.nd.empty((6,), "int32")
    tvm.build(te.create_schedule(bits.op), [a, bits], target)(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), x.view("int32"))
    unknown = te.compute((6,), lambda i: tvm.tir.call_intrin("float32", "tir.flor", a[i]), name="unknown")
    with pytest.raises((InternalError, UnsupportedError), match="flor"):
        tvm.build(te.create_schedule(unknown.op), [a, unknown], target)
