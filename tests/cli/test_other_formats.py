"""The verbs on a model of another format than ONNX: they ask its frontend, and compare with its reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Command
from tests.cli.test_bisect import fault_in
from tilewright import relay
from tilewright.frontend.formats import table as frontends
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.interface import Frontend
from tilewright.frontend.source import Source
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.module import IRModule
from tilewright.support import plugins
from tilewright.support.dtype import DType


class Lines(Frontend):
    """One operator a line, behind a head; the input x has a batch of any size."""

    name = "lines"
    kind = "a list of lines"

    def recognizes(self, source: Source) -> bool:
        return bytes(source.contents[:6]) == b"LINES\n"

    def convert(self, model: Any, input_shapes: Any) -> tuple[IRModule, list[InputSpec]]:
        specs = resolve_inputs([Declared("x", ("batch", 4), DType("float32"))], input_shapes)
        x = value = relay.var("x", specs[0].type)
        for index, line in enumerate(Path(model).read_text().split()[1:]):
            made = getattr(relay, line)(value)
            value = Call(made.op, made.args, made.attrs, f"{line}_{index}")
        return IRModule.from_expr(relay.Function([x], value, attrs={"output_names": ("y",)})), specs


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(frontends, "_added", [])
    monkeypatch.setattr(plugins, "_noted", [])
    frontends.add_frontend(Lines())
    yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_text("LINES\ntanh\nsigmoid\nexp\n")
    return path


def test_it_is_run_described_and_verified(tilewright: Command, path: Path) -> None:
    drawn = ("--input", "x=normal(0,1)[3,4]")
    assert "y: float32[3, 4]" in tilewright("run", path, *drawn).out
    shown = tilewright("inspect", path).out
    assert "a list of lines" in shown and "x: float32[batch, 4]" in shown and "tanh 1" in shown
    outcome = tilewright("verify", path, *drawn)
    assert outcome.status == 0 and "against the Relay interpreter" in outcome.out and "ok       y" in outcome.out


def test_random_inputs_need_its_sizes_too(tilewright: Command, path: Path) -> None:
    outcome = tilewright("verify", path)
    assert outcome.status == 2 and "batch" in outcome.err and '--input-shapes "x:[1,4]"' in outcome.err


def test_its_engines_are_named_where_another_is_asked_for(tilewright: Command, path: Path) -> None:
    outcome = tilewright("verify", path, "--against", "onnxruntime")
    assert outcome.status == 2 and "(onnxruntime runs ONNX files); known: interpreter" in outcome.err
    outcome = tilewright("verify", path, "--input-shapes", "x:[1,4]", "--at", "tanh_0")
    assert outcome.status == 2 and "cannot be cut at inner values" in outcome.err


def test_a_dump_is_compared_node_by_node(tilewright: Command, path: Path, tmp_path: Path) -> None:
    outcome = tilewright(
        "run", path, "--input-shapes", "x:[2,4]", "--dump", tmp_path / "values", "--against", "interpreter"
    )
    assert outcome.status == 0 and "3 of them compared with interpreter, 0 differ" in outcome.out, outcome


def test_the_first_faulty_node_is_found_in_a_model_of_relay(tilewright: Command, path: Path, tmp_path: Path) -> None:
    minimal = tmp_path / "minimal.json"
    arguments = ("bisect", path, "--input-shapes", "x:[2,4]", "--seed", 1, "-o", minimal)
    assert "no output differs" in tilewright(*arguments).out
    with fault_in("sigmoid"):
        outcome = tilewright(*arguments, "--no-cache")
    assert outcome.status == 1 and "first to differ: node 1: sigmoid_1 (sigmoid, output sigmoid_1)" in outcome.out
    mod = relay.load_json(minimal.read_text())
    given = np.load(minimal.with_suffix(".npz"))
    assert [param.name for param in mod["main"].params] == list(given) == ["tanh_0"]
