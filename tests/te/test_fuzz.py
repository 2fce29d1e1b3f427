"""Random computations under random schedules equal the computation by definition: as loops, and compiled."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.te.python_backend import run
from tests.te.random_schedule import expected_values, random_graph, random_schedule, shape_of
from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.te.record import graph_names
from tilewright.tir.structural import structural_equal
from tilewright.tir.verify import verify

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def _settings(cases):
    return settings(max_examples=cases, derandomize=True, deadline=None, suppress_health_check=QUIET, database=None)


def _case(data, stages=4):
    source, output = random_graph(data.draw, stages)
    outputs = list(output.op.outputs)
    schedule = random_schedule(data.draw, source, output)
    values = np.random.default_rng(0).integers(-3, 4, shape_of(source)).astype("int32")
    return source, outputs, schedule, values, expected_values(outputs, {source: values})


def _compare(results, expected):
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, reference)


@_settings(100)
@given(st.data())
def test_scheduled_loops_equal_the_definition(data):
    source, outputs, schedule, values, expected = _case(data)
    func = te.schedule_to_tir(schedule, [source, *outputs])
    results = [np.full(shape_of(t), 55, "int32") for t in outputs]
    run(func, values, *results)
    _compare(results, expected)


def _compiled(data, stages):
    source, outputs, schedule, values, expected = _case(data, stages)
    for _, func in te.lower_stages(schedule, [source, *outputs]):
        verify(func)
    results = [np.full(shape_of(t), 55, "int32") for t in outputs]
    build(func, threads=2)["main"](values, *results)
    _compare(results, expected)
    return source, outputs, schedule, values, expected


@_settings(150)
@given(st.data())
def test_compiled_schedules_are_valid_at_every_stage_and_equal_the_definition(data):
    _compiled(data, 4)


@pytest.mark.long
def test_three_thousand_compiled_schedules_equal_the_definition_and_stay_in_bounds():
    done = 0

    @_settings(3000)
    @given(st.data())
    def case(data):
        nonlocal done
        source, outputs, schedule, values, expected = _compiled(data, 6)
        checked = te.lower(schedule, [source, *outputs], check_bounds=True)
        results = [np.full(shape_of(t), 55, "int32") for t in outputs]
        build(checked)["main"](values, *results)
        _compare(results, expected)
        done += 1

    case()
    assert done >= 3000


@_settings(40)
@given(st.data())
def test_a_schedule_written_down_is_the_same_schedule(data):
    source, outputs, schedule, _, _ = _case(data)
    args = [source, *outputs]
    func = te.schedule_to_tir(schedule, args)
    intrinsics = {a.intrin.name: a.intrin for stage in schedule.stages for a in stage.attrs.values() if a.intrin}
    again = te.load_schedule(outputs, schedule.to_json(), intrinsics)
    assert again.to_json() == schedule.to_json()
    assert structural_equal(te.schedule_to_tir(again, args), func)
    fresh = te.create_schedule(outputs)
    exec(schedule.to_text(), {"s": fresh, "te": te, "tir": tir, "intrinsics": intrinsics, **graph_names(fresh)})
    assert structural_equal(te.schedule_to_tir(fresh, args), func)
