"""Run loops of models with thousands of inputs: what they take and how long they are."""

from __future__ import annotations

import pytest

from tilewright.backend.cpu.run_loop import build_run_loop
from tilewright.codegen.llvm import emit
from tilewright.codegen.source.c import emit_c
from tilewright.runtime.native import Kind
from tilewright.runtime.plan import ExecutionPlan, KernelCall, Location
from tilewright.runtime.signature import TensorSpec
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.run_regions import by_region, regions_of


def plan_of(calls: list[KernelCall], inputs: int, outputs: int) -> ExecutionPlan:
    """The calls as a plan of so many tensors."""
    tensors = [
        tuple(TensorSpec(f"{name}{i}", (16,), DType("float32")) for i in range(count))
        for name, count in (("x", inputs), ("y", outputs))
    ]
    return ExecutionPlan(inputs=tensors[0], outputs=tensors[1], kernels=tuple(calls), worker_workspace_bytes=128)


def call(name: str, *args: Location) -> KernelCall:
    return KernelCall(name=name, args=args)


def loop_of(inputs: int, outputs: int = 1) -> PrimFunc:
    """Each input becomes one piece of the arena; the last kernel writes all outputs."""
    calls = [
        call("piece", Location("input", i), Location("arena", 64 * i), Location("scratch", 0)) for i in range(inputs)
    ]
    last = [Location("output", i) for i in range(outputs)]
    return build_run_loop(plan_of([*calls, call("whole", Location("weights", 8), *last)], inputs, outputs), {})


def test_inputs_and_outputs_are_read_where_they_are_used() -> None:
    func = loop_of(3, 2)
    assert [p.name for p in func.params] == ["slots", "weights", "arena", "scratch"]
    text = str(func)
    assert "slots[2]" in text and text.index("slots[2]") < text.index("slots[3]") < text.index("slots[4]")
    assert "slots[5]" not in text


@pytest.mark.parametrize("form", ["llvm", "c"])
def test_code_grows_with_the_kernels_and_the_entry_not_at_all(form: str) -> None:
    def lines(inputs: int) -> tuple[int, int]:
        func = loop_of(inputs)
        text = emit([func], Target.host()) if form == "llvm" else emit_c([func]).text
        entry = text[text.rindex("main__entry(") :]
        return len(text.splitlines()), len(entry[: entry.index("}")].splitlines())

    (few, entry), (many, same) = lines(100), lines(5000)
    assert many < 51 * few and same == entry


def test_kernels_of_one_worker_in_a_row_are_one_region() -> None:
    kinds: list[Kind] = ["alone", "alone", "shared", "shared", "meeting", "alone", "shared", "alone", "alone"]
    calls = [call(f"k{i}", Location("arena", i)) for i in range(len(kinds))]
    func = build_run_loop(plan_of(calls, 1, 1), {f"k{i}": kind for i, kind in enumerate(kinds)})
    regions = regions_of(func)
    assert [kind for kind, _ in regions] == ["alone", "shared", "shared", "meeting", "alone", "shared", "alone"]
    assert [str(body).count("call_function") for _, body in regions] == [2, 1, 1, 1, 1, 1, 2]
    text = str(by_region(func))
    assert "barrier" not in text and all(text.count(f"'k{i}'") == 1 for i in range(len(kinds)))


def test_a_model_without_kernels_has_no_regions() -> None:
    func = build_run_loop(plan_of([], 1, 1), {})
    assert regions_of(func) == [] and by_region(func) is func
    assert "[0 x i8] []" in emit([func], Target.host())
