"""`vta.testing.run`: tests of the accelerator in a session of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat.rpc.session import LocalSession
from tilewright.compat.vta.environment import Environment, get_env
from tilewright.compat.vta.simulator import refuse_board


def run(run_func: Callable[[Environment, Any], None]) -> None:
    """Call a test with the environment and a session of this process. Raises `UnsupportedError` for a board."""
    env = get_env()
    refuse_board(env, "vta.testing.run")
    run_func(env, LocalSession())
