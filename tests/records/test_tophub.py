"""The records that come with the package: each is valid, the nearest is found, and compilation takes what is near."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

import tilewright as tw
from tests.autotvm.tasks import conv_module, conv_task
from tilewright import relay
from tilewright.backend.cpu.schedule.task_key import space_of_key
from tilewright.backend.lower import SCHEDULE
from tilewright.driver.apply_records import apply_records
from tilewright.records.entry import Entry, TaskKey, canonical
from tilewright.records.tophub import FILE, TopHub, distance_of, family_of, open_records, top_hub
from tilewright.relay.ir.expr import Call, Function
from tilewright.relay.ir.visitor import calls
from tilewright.target import Target

HERE = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -l3=1048576 -cores=1"


def test_the_records_are_no_more_than_a_mebibyte() -> None:
    assert 0 < resources.files("tilewright.records").joinpath(FILE).stat().st_size <= 1 << 20  # type: ignore[attr-defined]


def test_every_entry_is_a_configuration_of_its_task() -> None:
    hub = top_hub()
    assert hub.entries and hub.processors
    for entry in hub.entries:
        space = space_of_key(entry.task, Target(entry.processor))
        assert space is not None, entry.task
        space.config(dict(entry.config or {}))  # raises where it is not in the space
        assert entry.seconds and entry.seconds > 0 and entry.accepted


def key(size: int, **more: object) -> TaskKey:
    return TaskKey("conv2d_NCHWc", canonical({"height": size, "width": size, **more}))


def test_the_same_task_is_the_only_answer_and_else_the_nearest_shape_comes_first() -> None:
    entries = [Entry(key(size), HERE, {"tile": size}, 1e-5, accepted=True) for size in (7, 14, 56)]
    hub = TopHub(entries)
    assert [e.config for e in hub.nearest(key(14), HERE, 3)] == [{"tile": 14}]
    assert [e.config for e in hub.nearest(key(13), HERE, 2)] == [{"tile": 14}, {"tile": 7}]
    other_caches = HERE.replace("1048576", "2097152")
    assert [e.config for e in hub.nearest(key(56), other_caches, 1)] == [{"tile": 56}]
    assert hub.nearest(key(56), HERE.replace("skylake-avx512", "znver4"), 3) == []
    assert hub.nearest(key(112), HERE, 3, farthest=1.0) == []
    assert hub.nearest(TaskKey("dense_pack", key(7).workload), HERE, 3) == []


def test_distances_count_how_many_times_sizes_differ() -> None:
    assert distance_of(key(14), key(28)) == pytest.approx(2.0)
    assert distance_of(key(14), key(14, padded=True)) == pytest.approx(2.0)
    assert distance_of(key(14), key(14)) == 0.0
    assert family_of(HERE) == "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512".removeprefix("llvm ")


def test_a_model_compiled_with_the_hub_computes_the_same() -> None:
    x = np.ones((1, 32, 14, 14), np.float32)
    np.testing.assert_allclose(
        tw.compile(conv_module(), records="tophub", cache=False)(x),
        tw.compile(conv_module(), cache=False)(x),
        rtol=1e-5,
    )
    assert open_records("tophub") is top_hub()


@pytest.mark.parametrize("near", [True, False])
def test_what_is_known_of_a_near_task_is_taken_where_the_cost_model_does_not_object(near: bool) -> None:
    task = conv_task()
    point = 0 if near else len(task.points) - 1
    elsewhere = task.processor.replace("-cores=", "-l3=4194304 -cores=9")
    hub = TopHub([Entry(task.key, elsewhere, dict(task.points.plain(point)), 1e-5, accepted=True)])
    call = Call(task.function, list(task.function.params))
    mod = apply_records(relay.IRModule.from_expr(Function(list(task.function.params), call)), hub, task.target)
    (found,) = [call.op for call in calls(mod["main"].body) if isinstance(call.op, Function)]
    assert dict(found.attrs.get(SCHEDULE) or {}) == (task.points.plain(point) if near else {})
