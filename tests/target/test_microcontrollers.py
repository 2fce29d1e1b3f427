"""Processors of boards as targets."""

from __future__ import annotations

import pytest

from tilewright.backend import backend_of
from tilewright.errors import TargetError
from tilewright.target import Target
from tilewright.target.microcontrollers import MICROCONTROLLERS


@pytest.mark.parametrize("name", MICROCONTROLLERS)
def test_a_processor_is_one_core_that_is_not_here(name: str) -> None:
    target = Target(f"c -mcpu={name}")
    assert Target(str(target)) == target and target.cores == 1 and not target.is_host
    assert target.backend == "board" and backend_of(target).device == "cpu" and target.machine.vector_bits == 32


def test_c_alone_is_this_machine() -> None:
    assert Target("c").is_host and Target("c").backend == "c"


def test_only_processors_with_the_extension_multiply_pairs() -> None:
    pairs = {name for name in MICROCONTROLLERS if Target(f"c -mcpu={name}").supports("dsp")}
    assert pairs == {"cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"}


def test_an_unknown_processor_is_refused_with_those_there_are() -> None:
    with pytest.raises(TargetError, match=r"did you mean 'cortex-m4'.*known: generic, cortex-m0, cortex-m3"):
        Target("c -mcpu=cortex-m44")
    with pytest.raises(TargetError, match="takes no -cores="):
        Target("c -mcpu=cortex-m4 -cores=2")
