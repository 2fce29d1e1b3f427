"""Boards by name."""

from __future__ import annotations

import pytest

from tilewright.errors import TargetError
from tilewright.target import Target
from tilewright.target.boards import BOARDS


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_a_processor_of_the_table(name: str) -> None:
    board = Target(name)
    assert board == Target(BOARDS[name]) and board.architecture in ("aarch64", "riscv64") and board.cores >= 4


def test_options_behind_a_board_replace_its_own() -> None:
    assert Target("graviton-3 -cores=4") == Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1 -cores=4")


def test_an_unknown_board_is_told_with_those_there_are() -> None:
    with pytest.raises(TargetError, match="boards: raspberry-pi-3"):
        Target("raspberry-pi-9")
