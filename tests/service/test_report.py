"""Reports on compilations: graphs, figures of kernels, memory over time, refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.compile import compile_openly
from tilewright.relay.ir.module import IRModule
from tilewright.service.report import compilation, refusal
from tilewright.service.report.memory import Step, live_bytes, liveness

_TARGET = "llvm -mcpu=x86-64-v3"


@pytest.fixture(scope="module")
def module() -> IRModule:
    """Two products of matrices with what follows them, and a residual."""
    random = np.random.default_rng(0)
    x = relay.var("x", shape=(4, 64))

    def dense(data: Any, name: str) -> Any:
        weight = relay.Constant(random.standard_normal((64, 64)).astype("float32"))
        return named(relay.nn.dense(data, weight), name)

    def named(call: Any, name: str) -> Any:
        return relay.Call(call.op, call.args, call.attrs, name)

    first = named(relay.nn.relu(dense(x, "/first")), "/relu")
    second = named(dense(first, "/second") + first, "/add")
    return IRModule.from_expr(relay.Function((x,), relay.nn.softmax(second)))


@pytest.fixture(scope="module")
def report(module: IRModule) -> dict[str, Any]:
    """The report on its compilation, as another process reads it."""
    made = compile_openly(module, _TARGET, threads=1)
    return json.loads(json.dumps(compilation(made, module, _TARGET)))


def test_graph_has_nodes_and_edges_as_imported(report: dict[str, Any]) -> None:
    nodes = {node["id"]: node for node in report["model"]["nodes"]}
    assert [node["op"] for node in nodes.values()] == [
        "input", "nn.dense", "nn.relu", "nn.dense", "add", "nn.softmax", "output",
    ]  # fmt: skip
    named = {(nodes[a]["op"], nodes[b]["op"]) for a, b in report["model"]["edges"]}
    assert ("nn.relu", "add") in named and ("nn.dense", "add") in named and ("nn.softmax", "output") in named
    assert nodes[1]["type"] == "4×64 float32" and nodes[1]["weights"] == ["64×64 float32"]


def test_nodes_lead_to_groups_and_kernels(report: dict[str, Any]) -> None:
    groups = {group["id"]: group for group in report["fused"]["groups"]}
    kernels = {kernel["name"] for kernel in report["kernels"]}
    relu = next(node for node in report["model"]["nodes"] if node["op"] == "nn.relu")
    (group,) = relu["groups"]
    assert [one["op"] for one in groups[group]["nodes"]][:1] == ["nn.dense"] and groups[group]["kernel"] in kernels


def test_figures_are_those_of_the_definition(report: dict[str, Any]) -> None:
    products = [call for kernel in report["kernels"] if "dense" in kernel["name"] for call in kernel["calls"]]
    matrix, rows = 64 * 64, 4 * 64
    assert sorted(call["flops"] for call in products) == [2 * 4 * matrix + rows, 2 * 4 * matrix + rows]
    assert sorted(call["bytes"] for call in products) == [4 * (matrix + 2 * rows)] * 2  # /add reads one tensor twice
    assert sum(kernel["share"] for kernel in report["kernels"]) == pytest.approx(1.0)
    for at in report["roofline"]["points"]:
        call = next(call for kernel in report["kernels"] for call in kernel["calls"] if call["group"] == at["group"])
        assert at["intensity"] == pytest.approx(call["flops"] / call["bytes"])
        assert at["flops_per_second"] == pytest.approx(call["flops"] / call["seconds"])


def test_kernels_have_schedules_loops_and_code_with_common_lines(report: dict[str, Any]) -> None:
    kernel = next(kernel for kernel in report["kernels"] if "dense" in kernel["name"])
    assert kernel["schedule"]["template"] == "dense_pack" and kernel["form"] == "asm"
    assert "dense.py:" in kernel["loops"] and "# dense.py:" in kernel["assembly"] and "vfmadd" in kernel["assembly"]


def test_kernels_are_not_lowered_again(module: IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compile_openly(module, _TARGET, threads=1)

    def again(*_: Any) -> None:
        raise AssertionError("a kernel is lowered again")

    monkeypatch.setattr("tilewright.service.report.kernels.lower_function", again)
    found = compilation(made, module, _TARGET)
    assert all(kernel["loops"] for kernel in found["kernels"])
    with pytest.raises(AssertionError):  # there is nothing to take loops from
        compilation(None, module, _TARGET)


def test_measured_times_take_the_position_of_predicted_ones(module: IRModule) -> None:
    made = compile_openly(module, "cpu", threads=1)
    times = made.model.profile({"x": np.zeros((4, 64), "float32")}, repeat=1)
    found = compilation(made, module, "cpu", times=times, seconds=0.0)
    assert found["measured"] and all(kernel["measured"] for kernel in found["kernels"])
    assert sum(kernel["seconds"] for kernel in found["kernels"]) == pytest.approx(sum(row.seconds for row in times))
    assert all("omitted" in kernel for kernel in found["kernels"])  # no time was left for texts


def test_memory_is_within_the_arena(module: IRModule, report: dict[str, Any]) -> None:
    memory = report["memory"]
    made = compile_openly(module, _TARGET, threads=1)
    assert memory["arena"] == made.model.manifest.arena_bytes and memory["weights"] == 2 * 64 * 64 * 4
    assert all(offset + nbytes <= memory["arena"] for offset, nbytes, *_ in memory["values"])
    assert 4 * 64 * 4 <= max(step["bytes"] for step in memory["steps"]) <= memory["arena"]


def test_values_live_until_they_are_read_last() -> None:
    steps = [
        Step([], [(0, 100)]),
        Step([(0, 100)], [(128, 100)], [(256, 50)]),
        Step([(0, 100), (128, 100)], [(256, 10)]),
        Step([(256, 10)], [(0, 20)]),
    ]
    values = liveness(steps)
    assert [(one.offset, one.first, one.last, one.scratch) for one in values] == [
        (0, 0, 2, False), (128, 1, 2, False), (256, 1, 1, True), (256, 2, 3, False), (0, 3, 3, False),
    ]  # fmt: skip
    assert live_bytes(values, len(steps)) == [100, 250, 210, 30]


def test_a_result_over_its_input_counts_once() -> None:
    values = liveness([Step([], [(0, 64)]), Step([(0, 64)], [(0, 64)])])
    assert live_bytes(values, 2) == [64, 64]


def test_source_code_has_a_report_without_a_model(module: IRModule) -> None:
    found = compilation(None, module, "c -mcpu=cortex-m4")
    assert found["kernels"][0]["form"] == "c" and "for (" in found["kernels"][0]["assembly"]
    assert found["memory"]["arena"] > 0


def test_symbolic_sizes_have_no_figures_and_no_memory() -> None:
    x = relay.var("x", relay.TensorType((relay.Any(), 8), "float32"))
    found = compilation(None, IRModule.from_expr(relay.Function((x,), relay.nn.relu(x))), _TARGET)
    assert json.dumps(found) and found["kernels"][0]["flops"] is None and not found["memory"]["values"]


def test_refusals_name_nodes_operators_and_reasons() -> None:
    error = (
        "m.onnx needs 2 things Tilewright does not support:\n"
        "  node 'wave' (Wavelet) (the first of 2 such nodes): no converter for this operator\n"
        "  node 'x' (Loop): a reason: with a colon"
    )
    assert refusal(error, "cpu")["unsupported"] == [
        {"node": "wave", "operator": "Wavelet", "reason": "no converter for this operator"},
        {"node": "x", "operator": "Loop", "reason": "a reason: with a colon"},
    ]
    assert refusal("no model", "cpu")["unsupported"][0]["reason"] == "no model"
