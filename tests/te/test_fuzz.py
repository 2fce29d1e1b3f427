"""Random computations under random schedules equal the computation by definition, and the compiled ones too."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.te.python_backend import evaluate, run
from tests.te.random_schedule import random_graph, random_schedule, shape_of
from tilewright import te

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def _case(data):
    source, output = random_graph(data.draw)
    outputs = list(output.op.outputs)
    schedule = random_schedule(data.draw, source, output)
    values = np.random.default_rng(0).integers(-3, 4, shape_of(source)).astype("int32")
    return source, outputs, schedule, values, evaluate(outputs, {source: values})


@settings(max_examples=300, derandomize=True, deadline=None, suppress_health_check=QUIET, database=None)
@given(st.data())
def test_scheduled_loops_equal_the_definition(data):
    source, outputs, schedule, values, expected = _case(data)
    func = te.schedule_to_tir(schedule, [source, *outputs])
    results = [np.full(shape_of(t), 55, "int32") for t in outputs]
    run(func, values, *results)
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, reference)
