"""Measurements kept in memory: by configuration and hash of the code, the last first."""

from __future__ import annotations

import copy

from tests.autotvm.template.test_template import create
from tilewright.autotvm.classic.database import DummyDatabase
from tilewright.autotvm.classic.measure import MeasureInput, MeasureResult


def measured(point: int, cost: float) -> tuple[MeasureInput, MeasureResult]:
    task = create("tests/product", args=(8,))
    return MeasureInput(task.target, task, task.config_space.get(point)), MeasureResult((cost,), 0, 0.1, cost)


def test_results_are_kept_by_configuration_and_code() -> None:
    database, (inp, result) = DummyDatabase(), measured(0, 1.0)
    other = copy.deepcopy(inp)
    other.config.code_hash = "abc"
    database.save(inp, result, extend=True)
    assert database.load(inp) == result and database.load(other) is None and database.load(measured(1, 2.0)[0]) is None
    database.save(other, result._replace(costs=(3.0,)))
    assert database.load_batch([inp, other]) == [result, result._replace(costs=(3.0,))]
    assert len(database.filter(lambda _, results: results[0].costs[0] > 2)) == 1
    database.flush()
    assert database.load(inp) is None


def test_with_extend_all_results_are_kept_in_their_order() -> None:
    database, (inp, result) = DummyDatabase(), measured(0, 1.0)
    later = result._replace(costs=(0.5,))
    database.save(inp, result, extend=True)
    database.save(inp, later, extend=True)
    assert database.load(inp) == later and database.load(inp, get_all=True) == [result, later]
    database.save(inp, later)
    assert database.load(inp, get_all=True) == [later]
