"""Random computations under random schedules, as C and as kernels of thread blocks, equal the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.codegen.source.programs import require_target
from tests.te.random_schedule import Draw, expected_values, random_graph, random_schedule, shape_of
from tilewright import te
from tilewright.backend import build
from tilewright.errors import ScheduleError
from tilewright.te.attach import AttachType

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def cases(count: int) -> Any:
    return settings(max_examples=count, derandomize=True, deadline=None, suppress_health_check=QUIET, database=None)


def run_and_compare(func: Any, target: str, source: te.Tensor, outputs: list[te.Tensor], values: np.ndarray) -> None:
    results = [np.full(shape_of(t), 55, "int32") for t in outputs]
    references = expected_values(outputs, {source: values})
    build(func, target)["main"](values, *results)
    for result, expected in zip(results, references, strict=True):
        np.testing.assert_array_equal(result, expected)


def random_values(source: te.Tensor) -> np.ndarray:
    return np.random.default_rng(0).integers(-3, 4, shape_of(source)).astype("int32")


def c_case(data: Any) -> None:
    source, output = random_graph(data.draw, 5)
    outputs = list(output.op.outputs)
    schedule = random_schedule(data.draw, source, output)
    run_and_compare(te.lower(schedule, [source, *outputs]), require_target("c"), source, outputs, random_values(source))


@cases(6)
@given(st.data())
def test_random_schedules_in_c_equal_the_definition(data):
    c_case(data)


@pytest.mark.long
@cases(300)
@given(st.data())
def test_three_hundred_schedules_in_c_equal_the_definition(data):
    c_case(data)


# ------------------------------------------------------------------------------------------------- thread blocks
def device_schedule(draw: Draw, output: te.Tensor) -> te.Schedule:
    """Every stage on threads: kernels of their own, or inside a kernel with the result in shared or local memory."""
    s = te.create_schedule(output.op)
    threads = draw(st.integers(1, 6))
    x, block = te.thread_axis("threadIdx.x"), te.thread_axis("blockIdx.x")
    for stage in reversed([stage for stage in s.stages if isinstance(stage.op, te.ComputeOp)]):
        readers = [r for r in s.stages if any(t in stage.outputs for t in r.op.input_tensors)]
        position = draw(st.integers(0, 3))
        if not stage.is_output and position == 0 and not stage.op.is_reduction:
            stage.compute_inline()
        elif not stage.is_output and position == 1 and len(readers) == 1 and readers[0].attach_type == AttachType.ROOT:
            inside(draw, stage, readers[0], threads, x)
        else:
            on_the_grid(draw, stage, threads, x, block)
    return s


def on_the_grid(draw: Draw, stage: te.Stage, threads: int, x: Any, block: Any) -> None:
    """A kernel of its own: data axes fused and shared out; perhaps virtual threads, perhaps a shared reduction."""
    axis = stage.op.axis[0]
    for other in stage.op.axis[1:]:
        axis = stage.fuse(axis, other)
    reduced = stage.op.is_reduction and draw(st.booleans())
    if reduced:
        _, inner = stage.split(draw(st.sampled_from(stage.op.reduce_axis)), factor=threads)
        outer = [iv for iv in stage.leaf_iter_vars if iv not in (axis, inner)]
        stage.reorder(axis, *outer, inner)
        stage.bind(inner, x)
        stage.bind(axis, block)
        return
    if draw(st.booleans()):
        axis, virtual = stage.split(axis, factor=2)
        stage.bind(virtual, te.thread_axis("vthread"))
        block_axis, thread_axis = stage.split(axis, factor=threads)
        stage.reorder(block_axis, virtual, thread_axis)
    else:
        block_axis, thread_axis = stage.split(axis, factor=threads)
    stage.bind(block_axis, block)
    stage.bind(thread_axis, x)


def inside(draw: Draw, stage: te.Stage, reader: te.Stage, threads: int, x: Any) -> None:
    """Computed in the kernel of its reader, by all threads into shared memory or by each for itself."""
    loops = [iv for iv in reader.leaf_iter_vars if reader.attr(iv).thread is not None]
    stage.compute_at(reader, draw(st.sampled_from(loops)))
    stage.set_scope(draw(st.sampled_from(["shared", "local"])))
    if stage.scope == "shared":
        _, inner = stage.split(draw(st.sampled_from(stage.op.axis)), factor=threads)
        stage.reorder(*[iv for iv in stage.leaf_iter_vars if iv is not inner and iv not in stage.op.reduce_axis], inner)
        stage.bind(inner, x)


def device_case(data: Any, target: str) -> None:
    source, output = random_graph(data.draw, 4)
    assume(all(isinstance(stage.op, te.ComputeOp | te.PlaceholderOp) for stage in te.create_schedule(output.op).stages))
    outputs = list(output.op.outputs)
    schedule = device_schedule(data.draw, output)
    try:
        func = te.lower(schedule, [source, *outputs])
    except ScheduleError as error:
        assume("no barrier may stand" not in str(error))
        raise
    run_and_compare(func, require_target(target), source, outputs, random_values(source))


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1", "vulkan"])
@cases(6)
@given(st.data())
def test_random_schedules_of_thread_blocks_equal_the_definition(target, data):
    device_case(data, target)


@pytest.mark.long
@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1", "vulkan"])
@cases(300)
@given(st.data())
def test_three_hundred_schedules_of_thread_blocks_equal_the_definition(target, data):
    device_case(data, target)
