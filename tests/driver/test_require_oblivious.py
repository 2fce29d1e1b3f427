"""C source that is oblivious, or an error that names the kernels: counted by valgrind where it is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from bench.oblivious import OPERATORS, counts, drawn, program
from tilewright import relay
from tilewright.compile import export_source
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.visitor import free_vars

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("cc") is None, reason="needs valgrind and a C compiler"
)


def _module(body: relay.Expr) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function(free_vars(body), body))


@needs_valgrind
@pytest.mark.parametrize("name", ["maximum", "take"])
def test_each_input_takes_as_many_instructions(name: str, tmp_path: Path) -> None:
    specs, _ = program(OPERATORS[name], tmp_path, "haswell")
    rng = np.random.default_rng(0)
    found = counts(tmp_path, b"".join(drawn(rng, spec) for _ in range(20) for spec in specs))
    assert len(found) == 20 and len(set(found)) == 1


def test_kernels_that_are_not_are_named(tmp_path: Path) -> None:
    x, ids, u = relay.var("x", shape=(9, 5)), relay.var("i", shape=(2, 5), dtype="int32"), relay.var("u", shape=(2, 5))
    scattered = relay.scatter_elements(relay.nn.relu(x), ids, u, axis=0)
    with pytest.raises(UnsupportedError) as caught:
        export_source(_module(scattered), tmp_path / "net.c", oblivious=True)
    text = str(caught.value)
    assert re.match(r"\d of \d kernels are not oblivious:\n.*scatter_elements", text)
    assert "what to do (branch): choose between values" in text
    assert not list(tmp_path.iterdir())
    y = relay.var("y", shape=(3,), dtype="int32")
    with pytest.raises(
        UnsupportedError, match=r"floor_divide.*\n  division: [^?]*\nwhat to do \(division\): divide by const"
    ):
        export_source(_module(relay.floor_divide(y, relay.var("z", shape=(3,), dtype="int32"))), tmp_path / "d.c",
                      oblivious=True)  # fmt: skip


def test_functions_with_branches_are_refused(tmp_path: Path) -> None:
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    with pytest.raises(UnsupportedError, match="fmod, which takes as long as its argument is large"):
        export_source(_module(relay.mod(x, y)), tmp_path / "net.c", oblivious=True, freestanding=True)


def test_control_flow_is_refused(tmp_path: Path) -> None:
    x, c = relay.var("x", shape=(3,)), relay.var("c", shape=(), dtype="bool")
    with pytest.raises(UnsupportedError, match="a model with control flow is not oblivious"):
        export_source(_module(relay.If(c, relay.exp(x), x)), tmp_path / "net.c", oblivious=True)
