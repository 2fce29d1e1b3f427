"""What kinds of target answer, and that those which cannot say so once."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend import Backend, backend_of
from tilewright.backend.cpu import CpuBackend
from tilewright.backend.gpu import GpuBackend
from tilewright.compile import GRAPH_PASSES, optimize_stages
from tilewright.errors import UnsupportedError
from tilewright.target import DeviceTarget, Target

PACKAGE = Path(tw.__file__).parent


def _model() -> relay.IRModule:
    x = relay.var("x", shape=(1, 8))
    return relay.IRModule.from_expr(
        relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(np.ones((4, 8), "float32")))))
    )


def test_processors_answer_every_question() -> None:
    questions = {name for name in vars(Backend) if not name.startswith("_")}
    kept = {"target", "machine", "refusal", "passes_left_out"}
    assert questions - kept <= set(vars(CpuBackend))


@pytest.mark.parametrize("kind", DeviceTarget.KINDS)
def test_whole_models_on_a_device_are_refused_with_one_message(kind: str) -> None:
    with pytest.raises(UnsupportedError, match=f"whole models do not run on the target '{kind}' yet.*cpu"):
        tw.compile(_model(), target=kind)
    with pytest.raises(UnsupportedError, match="whole models"):
        backend_of(Target(kind)).dense_block(64, 64, 1)


@pytest.mark.parametrize("kind", [CpuBackend, GpuBackend])
def test_passes_left_out_are_graph_passes(kind: type[Backend]) -> None:
    assert {name for name, _ in GRAPH_PASSES} >= set(kind.passes_left_out)


def test_a_backend_leaves_passes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("cpu")
    every = [name for name, _ in optimize_stages(_model(), target)]
    monkeypatch.setattr(CpuBackend, "passes_left_out", ("pack_dense",))
    assert [name for name, _ in optimize_stages(_model(), target)] == [name for name in every if name != "pack_dense"]
    assert "pack_dense" in every


def test_relay_imports_no_kind_of_target() -> None:
    found = []
    for path in (PACKAGE / "relay").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                parts = node.module.split(".")
                if parts[:3] in (["tilewright", "backend", "cpu"], ["tilewright", "backend", "gpu"]):
                    found.append(f"{path.relative_to(PACKAGE)}: {node.module}")
                if parts[:4] == ["tilewright", "topi", "schedule", "cpu"]:
                    found.append(f"{path.relative_to(PACKAGE)}: {node.module}")
    assert not found
