"""`vta.testing.simulator`: the simulators, and what they counted."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tilewright.compat.runtime.functions import register_func
from tilewright.compat.vta.environment import DRIVERS, Environment, get_env
from tilewright.errors import UnsupportedError

#: Counters by their classic names.
_NAMES = {
    "inp_load_nbytes": ("INP bytes",),
    "wgt_load_nbytes": ("WGT bytes",),
    "acc_load_nbytes": ("ACC bytes", "ACC_8BIT bytes"),
    "uop_load_nbytes": ("UOP bytes",),
    "out_store_nbytes": ("OUT bytes",),
    "gemm_counter": ("GEMM steps",),
    "alu_counter": ("ALU steps",),
}
_counted: Counter[str] = Counter()
LIBS: list[Any] = []
DEBUG_SKIP_EXEC = 1


def note(counters: Counter[str]) -> None:
    """Add what a run counted."""
    _counted.update(counters)


def enabled() -> bool:
    """True: the simulators are part of this package."""
    return True


def clear_stats() -> None:
    """Begin counting anew."""
    _counted.clear()


def stats() -> dict[str, int]:
    """The counts since `clear_stats`: bytes and steps, or cycles on the simulator that knows them."""
    if get_env().TARGET == "tsim":
        return {"cycle_count": _counted["cycles"]}
    return {name: sum(_counted[one] for one in parts) for name, parts in _NAMES.items()}


def debug_mode(flag: int) -> None:
    """Refused but for 0: programs are executed. Raises `UnsupportedError`."""
    if flag:
        raise UnsupportedError(f"debug_mode({flag}): programs are executed; simulator.stats() counts what they do")


for _kind in ("simulator", "tsim"):
    register_func(f"vta.{_kind}.profiler_clear", clear_stats, override=True)
    register_func(f"vta.{_kind}.profiler_status", lambda: json.dumps(stats()), override=True)
register_func("vta.simulator.profiler_debug_mode", debug_mode, override=True)


def reconfig_runtime(remote: Any) -> None:
    """Nothing: a simulator takes the configuration from each program. Raises `UnsupportedError` for a board."""
    refuse_board(get_env(), "reconfig_runtime")


def program_fpga(remote: Any, bitstream: Any = None) -> None:
    """Nothing: a simulator has no bitstream. Raises `UnsupportedError` for a board."""
    refuse_board(get_env(), "program_fpga")


def refuse_board(env: Environment, what: str) -> None:
    """Raise `UnsupportedError` where the environment is that of a board."""
    if env.TARGET not in DRIVERS:
        raise UnsupportedError(
            f"{what} on {env.TARGET!r}: no driver of a board is part of this package; programs run on "
            f"{', '.join(DRIVERS)}"
        )
