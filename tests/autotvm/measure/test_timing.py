"""Results of comparisons in turns: the figures of quiet and of busy machines, and who becomes the incumbent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.autotvm.tasks import conv_task
from tilewright.autotvm.measure.measurer import Incumbent, Measurer
from tilewright.autotvm.measure.timing import Timing
from tilewright.autotvm.measure.trial import Trial


def test_neither_percentile_alone_makes_a_candidate_faster() -> None:
    assert Timing(0.9e-3, 1e-3, 1e-5, 0.9, 0.95, 20).ratio == 0.95


def test_on_a_busy_machine_one_undisturbed_block_decides_nothing() -> None:
    assert Timing(1.7e-3, 11.7e-3, 1e-5, 0.56, 0.84, 9).ratio == 0.84


@pytest.mark.parametrize(("accepted", "seconds"), [(True, 0.9e-3), (False, 1e-3)])
def test_only_what_is_accepted_is_recorded_as_faster(accepted: bool, seconds: float) -> None:
    task: Any = conv_task()
    code: Any = None
    with Measurer([task]) as measurer:
        measurer.incumbents[task] = Incumbent(0, 1e-3, code)
        trial = measurer._timed(task, Trial(1, {}), code, Timing(0.9e-3, 1e-3, 1e-5, 0.9, 0.9, 20), accepted)
        assert trial.seconds == pytest.approx(seconds) and trial.accepted == accepted
        assert measurer.incumbents[task].seconds == pytest.approx(seconds)
