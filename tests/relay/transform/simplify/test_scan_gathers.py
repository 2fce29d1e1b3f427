"""Gathers as scans: the same elements, by addresses that depend on no data."""

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import feed, module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.driver.build import extract_tasks, memory_plan
from tilewright.driver.lower import lower_function
from tilewright.driver.optimize import optimize
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.relay.transform.simplify.scan_gathers import scan_gathers
from tilewright.target import Target
from tilewright.tir.oblivious import data_dependences


def _ids(*shape, dtype="int64"):
    return relay.var("ids", shape=shape, dtype=dtype)


def _table(*shape, dtype="float32"):
    return relay.var("table", shape=shape, dtype=dtype)


GATHERS = {
    "rows": lambda: relay.take(_table(9, 5), _ids(2, 3), axis=0),
    "columns": lambda: relay.take(_table(4, 9, 2), _ids(3), axis=1),
    "scalar": lambda: relay.take(_table(9, 5), _ids(), axis=0),
    "flat": lambda: relay.take(_table(3, 3), _ids(4, dtype="int32")),
    "bytes": lambda: relay.take(_table(9, 5, dtype="int8"), _ids(6), axis=0, mode="wrap"),
    "back": lambda: relay.take(_table(9), _ids(7), axis=0, mode="from_back"),
    "elements": lambda: relay.gather(_table(9, 5), 0, _ids(2, 5)),
    "cropped": lambda: relay.gather(_table(4, 9), -1, _ids(3, 6)),
}


@pytest.mark.parametrize("name", GATHERS)
def test_a_scan_picks_what_a_gather_picks(name):
    before = module(GATHERS[name]())
    after = scan_gathers(before)
    assert not {"take", "gather"} & set(op_names(after))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-12, 12, x.shape).astype(x.dtype) if x.dtype.kind == "i" else x for x in feed(before)]
    (wanted,), (found,) = relay.interpret(before, inputs), relay.interpret(after, inputs)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_kernels_are_oblivious(target):
    made, kind = module(GATHERS["rows"]()), Target(target)

    def found():
        fused = optimize(made, kind)
        tasks, _ = extract_tasks(memory_plan(fused, backend_of(kind)).order)
        return [one for task in tasks for one in data_dependences(lower_function(task.function, task.name, kind))]

    assert {one.kind for one in found()} == {"address"}
    with PassContext(required_pass=["scan_gathers"]):
        assert found() == []


def test_compiled_with_the_pass():
    table = np.arange(45, dtype="float32").reshape(9, 5)
    with PassContext(required_pass=["scan_gathers"]):
        exe = tw.compile(module(GATHERS["rows"]()))
    ids = np.array([[0, 8, 3], [-1, 2, 99]])
    np.testing.assert_array_equal(exe(table, ids), table[np.clip(ids, 0, 8)])
