"""`PassContext(config=…)` while schedules are lowered: the options there are, and the passes that programs add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.compat.ir.module import IRModule
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.transform.manager import pass_manager
from tilewright.relay.transform.manager.pass_manager import register_config_option
from tilewright.tir import stmt as s
from tilewright.tir.stmt import For, ForKind, PrimFunc
from tilewright.tir.visitor import Rewriter

register_config_option("relay.FuseOps.max_depth", "the calls that one group of FuseOps has at most")
ADDED, SERIAL, CHECKED = "tir.add_lower_pass", "tir.disable_vectorize", "tir.instrument_bound_checkers"
register_config_option(ADDED, "(phase, pass) pairs: what tvm.lower and tvm.build run of the program's own")
register_config_option(SERIAL, "loops marked to be vectorized stay loops")
register_config_option(CHECKED, "an access outside of its buffer makes the call fail")
for _name in (
    *("tir.noalias", "tir.detect_global_barrier", "tir.disable_assert", "tir.is_entry_func", "tir.HoistIfThenElse"),
    *("tir.debug_keep_trivial_loop", "tir.LoopPartition", "tir.UnrollLoop", "tir.InjectDoubleBuffer"),
    *("relay.backend.use_auto_scheduler", "relay.backend.use_meta_schedule", "relay.fallback_device_type"),
):
    register_config_option(_name, "a hint to classic passes; results are the same with and without it")


class PassContext(pass_manager.PassContext):
    """The passes that run while it is open, and their options; the classic level is 2."""

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(opt_level, required_pass, disabled_pass, instruments, config)


#: The phase of added passes that follows a stage of this package's pipelines. Those of phase 3 come last of all.
_PHASES = {"schedule_to_tir": 0, "flatten_buffers": 1, "unroll_loop": 2, "remove_no_op": 3}
_LAST = 3


def bounds_are_checked() -> bool:
    """True if the current context requests code that checks its accesses."""
    return bool(PassContext.current().config.get(CHECKED, False))


def after_stage(stage: str, func: PrimFunc) -> PrimFunc:
    """`func` after the stage of lowering and what the current context adds to it."""
    if stage == "schedule_to_tir" and PassContext.current().config.get(SERIAL, False):
        func = _Serial()(func)
    return added(func, _PHASES[stage]) if stage in _PHASES else func


def added(func: PrimFunc, phase: int) -> PrimFunc:
    """`func` after the passes that the current context adds in this phase.

    Raises `InputError` for a pass that is no pass over modules, or one that loses the function.
    """
    for number, one in PassContext.current().config.get(ADDED, ()):
        if min(int(number), _LAST) != phase:
            continue
        if not callable(one):
            raise InputError(f"{ADDED}: {one!r} is no pass; make one with tvm.tir.transform.prim_func_pass")
        made = one(IRModule({func.name: func}))
        if not isinstance(made, IRModule) or func.name not in made or not isinstance(made[func.name], PrimFunc):
            raise InputError(f"{ADDED}: {one!r} gave no module with the loop function {func.name}")
        func = made[func.name]
    return func


def with_added(func: PrimFunc) -> PrimFunc:
    """A function that is lowered already after the added passes of all phases."""
    for phase in range(_LAST + 1):
        func = added(func, phase)
    return func


def refuse_added(what: str) -> None:
    """Raise `UnsupportedError` if the current context adds passes, which `what` would not run."""
    if PassContext.current().config.get(ADDED):
        raise UnsupportedError(
            f"{what} does not run the passes of {ADDED}; lower schedules with tvm.lower or tvm.build"
        )


class _Serial(Rewriter):
    """Loops in place of vectors."""

    def visit_For(self, loop: For) -> s.Stmt:
        rebuilt = self.rebuild(loop)
        assert isinstance(rebuilt, For)
        if rebuilt.kind is not ForKind.VECTORIZED:
            return rebuilt
        return For(rebuilt.var, rebuilt.min, rebuilt.extent, ForKind.SERIAL, rebuilt.body).at(loop.position)
