"""Small things that classic programs of several versions do."""

from __future__ import annotations

import numpy as np
import pytest


def test_devices_of_time_evaluators_by_their_older_name() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    func = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="plus_one")
    arrays = [tvm.nd.array(np.zeros(16, "float32")) for _ in range(2)]
    assert func.time_evaluator(func.entry_name, ctx=tvm.cpu(), number=2)(*arrays).mean > 0
    np.testing.assert_array_equal(arrays[1].numpy(), np.ones(16))
    with pytest.raises(tvm.TVMError, match="dev and ctx"):
        func.time_evaluator(func.entry_name, ctx=tvm.cpu(), dev=tvm.cpu())


def test_a_function_without_a_module_is_its_schedules_main() -> None:
    import tvm
    from tvm import te, tir
    from tvm.tir.schedule.testing import assert_structural_equal_ignore_global_symbol

    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="b")
    func = te.create_prim_func([a, b])
    renamed = func.with_attr("global_symbol", "doubled")
    for given in (func, renamed):
        schedule = tir.Schedule(given)
        (loop,) = schedule.get_loops(schedule.get_block("b"))
        schedule.split(loop, [None, 4])
        assert schedule.mod["main"] is not None
        values = tvm.nd.array(np.arange(16, dtype="float32")), tvm.nd.array(np.zeros(16, "float32"))
        tvm.build(schedule.mod["main"], target="llvm")(*values)
        np.testing.assert_array_equal(values[1].numpy(), 2 * np.arange(16))
    assert_structural_equal_ignore_global_symbol(func, tvm.IRModule({"main": func}))
    assert issubclass(tir.ScheduleError, tvm.TVMError) and tir.schedule.ScheduleError is tir.ScheduleError


def test_modules_that_programs_import_from() -> None:
    import tvm
    from tvm import relay, tir
    from tvm.ir.base import Span, assert_structural_equal, structural_equal
    from tvm.relay.op import transform

    x = relay.var("x", shape=(2, 6))
    assert structural_equal(transform.reshape(x, (3, 4)), relay.reshape(x, (3, 4))) and Span is not None
    assert_structural_equal(transform.transpose(x), relay.transpose(x))
    with pytest.raises(tvm.TVMError, match="decl_tensor_intrin"):
        tir.TensorIntrin.register("dot", None, None)
