"""Transfer between tasks, and from another processor's records."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.autotvm.tasks import conv_task
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network.transfer import TransferPool, foreign_samples
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.tuner.explorers import make_explorer
from tilewright.autotvm.tuner.model_explorer import ModelExplorer
from tilewright.records.entry import Entry
from tilewright.target import Target

ELSEWHERE = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -cores=1"


def entries(task: KernelTask, count: int) -> list[Entry]:
    there = KernelTask(task.name, task.function, Target(ELSEWHERE), ["input", "weight"])
    return [
        Entry(task.key, ELSEWHERE, dict(there.points.plain(point)), 1e-5 * (1 + point))
        for point in range(min(count, len(there.points)))
    ]


def test_there_is_a_general_model_once_enough_was_measured() -> None:
    pool, task = TransferPool("gru"), conv_task()
    assert pool.general() is None
    for number in range(2):
        explorer = make_explorer("xgb", task.points, Random(number), task, "gru")
        assert isinstance(explorer, ModelExplorer)
        explorer.learn(Trial(p, {}, seconds=1e-5 * (1 + p)) for p in [p % len(task.points) for p in range(30)])
        pool.add(explorer)
    found = pool.general()
    assert found is not None and found.trained and pool.general() is found


def test_records_of_another_processor_are_read_with_its_caches() -> None:
    task = conv_task()
    known = entries(task, 6)
    samples = foreign_samples(task, ELSEWHERE, known)
    assert samples is not None and len(samples) == len(known)
    assert samples.seconds.tolist() == pytest.approx([entry.seconds for entry in known])
    pool = TransferPool("gru")
    pool.add_foreign([task], {ELSEWHERE: known})
    assert pool.general() is None  # too few by themselves


def test_records_that_are_of_no_use_are_none() -> None:
    task = conv_task()
    odd = [Entry(task.key, ELSEWHERE, {"knob": 1}, 1e-5), Entry(task.key, ELSEWHERE, None, 1e-5)]
    assert foreign_samples(task, ELSEWHERE, odd) is None
    assert foreign_samples(task, "no such target", entries(task, 3)) is None


def test_the_analytic_model_has_nothing_to_pass_on() -> None:
    pool, task = TransferPool("analytic"), conv_task()
    explorer = make_explorer("xgb", task.points, Random(0), task, "analytic")
    assert isinstance(explorer, ModelExplorer)
    pool.add(explorer)
    assert pool.general() is None and np.isfinite(task.points.expected(0))
