"""`tvm.ir.register_intrin_lowering`: a program's own rules for what becomes of an intrinsic on a kind of target.

    register_intrin_lowering("tir.exp", "cuda", lambda call: call_pure_extern("float32", "expf", call.args[0]))

The rule with the highest level is called, before code is made, on each call of the intrinsic; it may return it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from tilewright import tir
from tilewright.errors import InputError, UnsupportedError
from tilewright.target import Target
from tilewright.tir.intrinsics import INTRINSICS, declare
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.visitor import Rewriter

_PREFIX = "tir."
_RULES: dict[tuple[str, str], tuple[int, Callable[[Any], Any]]] = {}
_DECLARED: set[str] = set()


class CallEffectKind(IntEnum):
    """The effect of a call besides its value."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6
    Opaque = 3


def declare_intrinsic(op_name: str, effect: int) -> None:
    """Let the intrinsic "tir.NAME", which a rule lowers, be called; `effect` is a `CallEffectKind`."""
    name = op_name.removeprefix(_PREFIX)
    if name not in INTRINSICS:
        declare(name, int(effect) <= CallEffectKind.ReadState)
        _DECLARED.add(name)


def register_intrin_lowering(
    op_name: str, target: str, *, f: Callable[[Any], Any] | None = None, level: int = 10
) -> Callable[[Any], Any]:
    """Let `f(call)` say what stands for calls of `op_name` ("tir.exp") on targets of a kind ("cuda", "llvm").

    Of two rules the one with the higher level is asked. Without `f` a decorator. Raises `InputError` for a second rule
    of the same level.
    """
    if f is None:
        return lambda given: register_intrin_lowering(op_name, target, f=given, level=level)
    key = (target, op_name.removeprefix(_PREFIX))
    known = _RULES.get(key)
    if known is not None and known[0] == level:
        raise InputError(f"{op_name} has a rule of level {level} for {target} already; pass another level")
    if known is None or known[0] < level:
        _RULES[key] = (level, f)
    return f


def with_rules(func: PrimFunc, target: Target) -> PrimFunc:
    """`func` with the calls lowered that programs registered rules for. Raises `UnsupportedError` for one without."""
    kind = "llvm" if target.kind == "cpu" else str(target.kind)
    rules = {name: rule for (where, name), (_, rule) in _RULES.items() if where == kind}
    if not rules and not _DECLARED:
        return func
    return func.with_body(_Lowering(kind, rules)(func.body))


class _Lowering(Rewriter):
    def __init__(self, kind: str, rules: dict[str, Callable[[Any], Any]]) -> None:
        super().__init__()
        self.kind, self.rules = kind, rules

    def visit_Call(self, call: tir.Call) -> tir.Expr:
        """The result of the rule of the call's intrinsic."""
        made: Any = self.rebuild(call)
        if made.op in self.rules:
            seen = _as_seen(made)
            lowered = self.rules[made.op](seen)
            made = made if lowered is seen or lowered is None else tir.convert(lowered)
        if isinstance(made, tir.Call) and made.op in _DECLARED:
            raise UnsupportedError(
                f"no rule lowers {_PREFIX}{made.op} on {self.kind!r}: register one by tvm.ir.register_intrin_lowering"
            )
        return made


class _OpName(str):
    """The name of an intrinsic, which also has the classic one as `name`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The classic name: "tir.exp"."""
        return _PREFIX + self


def _as_seen(call: tir.Call) -> tir.Call:
    """The call as rules see it: its `op` is an operator with a name."""
    made = object.__new__(tir.Call)
    for name, value in (("dtype", call.dtype), ("op", _OpName(call.op)), ("args", call.args)):
        object.__setattr__(made, name, value)
    return made


def register_intrin_rule(
    target: str, intrin: str, f: Callable[[Any], Any] | None = None, override: bool = False
) -> Callable[[Any], Any]:
    """`register_intrin_lowering` as v0.7 and before spell it: `register_intrin_rule("cuda", "exp", rule)`.

    An intrinsic of a new name is declared by its rule. With `override` the rule replaces what there is.
    """
    if f is None:
        return lambda given: register_intrin_rule(target, intrin, given, override)
    if intrin not in INTRINSICS and intrin not in _DECLARED:
        declare_intrinsic(_PREFIX + intrin, CallEffectKind.Pure)
    if override:
        _RULES.pop((target, intrin), None)
    return register_intrin_lowering(_PREFIX + intrin, target, f=f)
