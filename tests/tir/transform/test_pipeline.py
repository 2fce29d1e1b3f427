"""The pipelines: each stage has a name, and gets what the code is for."""

from __future__ import annotations

import pytest

from tilewright import te, tir
from tilewright.target import Target
from tilewright.tir.printer import to_text
from tilewright.tir.transform.pipeline import (
    ACCELERATOR,
    DEVICE,
    HOST,
    KERNEL,
    C,
    Pipeline,
    Stage,
    pipeline_of,
    result,
    run,
)
from tilewright.tir.verify import verify


def vectors() -> tir.PrimFunc:
    a = te.placeholder((16,), "float16", "a")
    b = te.compute((16,), lambda i: a[i] * a[i], "b")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    return te.lower(s, [a, b], "f")


def test_a_pipeline_for_each_kind_of_target() -> None:
    assert pipeline_of(Target("cpu")) is HOST
    assert pipeline_of(Target("cuda")) is DEVICE
    differing = [own.name for own, usual in zip(C.lower, HOST.lower, strict=True) if own is not usual]
    assert differing == ["loop_partition"]
    assert C.names[-3:] == ["legalize_float16", "scalarize_vectors", "hoist_values"]
    assert DEVICE.names[0] == "note_warp_size" and DEVICE.names[-1] == "verify_gpu_code"


@pytest.mark.parametrize(
    "pipeline", [HOST, C, DEVICE, ACCELERATOR, Pipeline(KERNEL)], ids=["HOST", "C", "DEVICE", "ACC", "KERNEL"]
)
def test_a_stage_is_named_like_its_pass(pipeline: Pipeline) -> None:
    for name in pipeline.names:
        module = __import__(f"tilewright.tir.transform.{name}", fromlist=[name])
        assert callable(getattr(module, name))


def test_stages_run_in_order_with_what_the_code_is_for() -> None:
    seen = []

    def note(func: tir.PrimFunc, target: str) -> tir.PrimFunc:
        seen.append(target)
        return func.with_attr("noted", len(seen))

    func = vectors()
    made = dict(run((Stage("one", note), Stage("two", note)), func, "machine"))
    assert list(made) == ["one", "two"] and made["two"].attrs["noted"] == 2 and seen == ["machine", "machine"]
    assert result((), func, None) is func


def test_c_gets_neither_vectors_nor_16_bit_arithmetic() -> None:
    func = vectors()
    assert "ramp" in to_text(func)
    made = dict(run(C.code, func, Target("cpu")))
    for one in made.values():
        verify(one)
    text = to_text(made["scalarize_vectors"])
    assert "ramp" not in text and "float32(" in text


def test_a_prefetch_is_as_long_as_the_line_of_the_target() -> None:
    a = te.placeholder((8, 64), "float32", "a")
    b = te.compute((8, 64), lambda i, j: a[i, j] + 1.0, "b")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 1)
    for spec, lines in (
        ("-mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", 4),
        ("-mtriple=arm64-apple-darwin -mcpu=apple-m1", 2),
    ):
        stages = dict(te.lower_stages(s, [a, b], target=Target(f"llvm {spec}")))
        loops = [loop for loop in tir.visitor.collect(stages["inject_prefetch"], tir.For) if loop.var.name == "line"]
        assert [loop.extent.value for loop in loops] == [lines]
