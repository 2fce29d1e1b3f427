"""Answers of the kinds of target, and one clear error from those that cannot."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend import Backend, backend_of
from tilewright.backend.board.backend import BoardBackend
from tilewright.backend.c.backend import CBackend
from tilewright.backend.cpu.backend import CpuBackend
from tilewright.backend.cpu.functions import CpuFunctions
from tilewright.backend.cpu.rules import CpuRules
from tilewright.backend.cpu.schedules import CpuSchedules
from tilewright.backend.gpu.backend import GpuBackend
from tilewright.backend.gpu.processor import ProcessorBackend
from tilewright.backend.kinds import BACKENDS
from tilewright.backend.vta.backend import VtaBackend
from tilewright.backend.vta.board import VtaBoardBackend
from tilewright.backend.wasm.backend import WasmBackend
from tilewright.driver.optimize import optimize_stages
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.transform.passes import PIPELINE, PLAIN_PIPELINE, REQUIRED
from tilewright.target import DeviceTarget, Target

PACKAGE = Path(tw.__file__).parent


def _model() -> relay.IRModule:
    x = relay.var("x", shape=(1, 8))
    return relay.IRModule.from_expr(
        relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(np.ones((4, 8), "float32")))))
    )


def test_every_kind_of_target_has_a_backend() -> None:
    kinds = {
        "llvm": CpuBackend,
        "c": CBackend,
        "vta": VtaBackend,
        "wasm": WasmBackend,
        **dict.fromkeys(DeviceTarget.KINDS, GpuBackend),
    }
    assert {kind: type(backend_of(Target(kind))) for kind in kinds} == kinds
    assert type(backend_of(Target("opencl -device=cpu"))) is ProcessorBackend
    assert type(backend_of(Target("c -mcpu=cortex-m4"))) is BoardBackend
    assert type(backend_of(Target("vta -host=riscv32-imac"))) is VtaBoardBackend
    assert {*kinds, "opencl cpu", "board", "vta board"} == BACKENDS.keys()


def test_processors_answer_what_layouts_and_schedules_ask() -> None:
    asked = {name for name in (*vars(GraphBackend), *vars(Backend)) if not name.startswith("_")}
    shared = {"target", "has_target", "offload", "device", "alignment", "gathers_operands", "finishes_rows"}
    shared |= {"lowers", "own_stages", "own_texts", "seconds", "plans_in_code", "has_processor_beside"}
    shared |= {"asked", "obstacle", "part_alignment", "has_own_memory", "copy_seconds"}  # of devices beside the host
    assert asked - shared <= {
        name for part in (CpuBackend, CpuRules, CpuSchedules, CpuFunctions) for name in vars(part)
    }


def test_a_question_that_a_device_does_not_answer_is_refused_in_words() -> None:
    with pytest.raises(UnsupportedError, match="GpuBackend has no method for this yet"):
        backend_of(Target("opencl")).rules()


def test_an_executor_that_a_device_does_not_have_is_refused_in_words() -> None:
    with pytest.raises(UnsupportedError, match='the executor "aot" runs models as one C function, which opencl'):
        tw.compile(_model(), target="opencl", executor="aot", cache=False)


def test_a_device_chooses_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("cpu")
    usual = [one.name for one in PIPELINE if one.level < REQUIRED]
    assert [name for name, _ in optimize_stages(_model(), target)] == ["relay", *usual]
    monkeypatch.setattr(CpuBackend, "pipeline", Backend.pipeline)
    plain = [one.name for one in PLAIN_PIPELINE if one.level < REQUIRED]
    assert [name for name, _ in optimize_stages(_model(), target)] == ["relay", *plain]
    assert {one.name for one in PIPELINE} - {one.name for one in PLAIN_PIPELINE} >= {"alter_layout", "pack_dense"}


def test_relay_imports_no_backend() -> None:
    found = []
    for path in (PACKAGE / "relay").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tilewright.backend"):
                found.append(f"{path.relative_to(PACKAGE)}: {node.module}")
    assert not found


def test_code_generators_are_reached_through_backends() -> None:
    """But for a simulator, which is a program for this machine and not for a target."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        folder, text = path.relative_to(PACKAGE).parts[0], path.read_text()
        if folder in ("backend", "codegen") or "tilewright.codegen" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            name = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if name.startswith(tuple(f"tilewright.codegen.{one}" for one in ("llvm", "native", "build_device"))):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"vta/native.py"}
