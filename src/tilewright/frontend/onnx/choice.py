"""Values that a condition chooses at run time, under one type; and forks, where no type of a tensor holds both.

y = If(c, [squeezed: (b, 128)], [as it is: (b, 128, t)]); z = LSTM(y)
  as a choice:  y of unknown rank, all that reads it on the host
  as a fork:    z = If(c, LSTM(squeezed), LSTM(as it is)), the rest of the graph compiled once for each rank
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import ModelError
from tilewright.frontend.onnx.value_types import join_types
from tilewright.relay.ir.expr import Expr, If, Tuple
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.onnx_host import host_call


class Fork(Exception):
    """The outputs of a node are those of one of two branches, by `condition`, and differ in rank."""

    def __init__(self, label: str, condition: Expr, branches: Sequence[list[Expr] | ModelError]) -> None:
        super().__init__(label)
        self.label = label
        self.condition = condition
        self.branches = branches


def choose(label: str, condition: Expr, branches: Sequence[list[Expr] | ModelError]) -> list[Expr]:
    """The values of the first branch where `condition` is true, else of the second.

    A branch that is a `ModelError` stops the model with it when it is taken; the first is raised where both are.
    """
    first, second = _sound(branches)
    if len(first) != len(second):
        raise ModelError(f"{label}: its branches give {len(first)} and {len(second)} values")
    pairs = [_of_one_type(label, a, b) for a, b in zip(first, second)]
    then_value, else_value = (Tuple([pair[side] for pair in pairs]) for side in (0, 1))
    chosen = If(condition, then_value, else_value)
    return [chosen[index] for index in range(len(pairs))]


def differ_in_rank(branches: Sequence[list[Expr] | ModelError]) -> bool:
    """True if both branches give a tensor in the same place, of another rank."""
    first, second = _sound(branches)
    pairs = [(type_of(a), type_of(b)) for a, b in zip(first, second)]
    return any(isinstance(a, TensorType) and isinstance(b, TensorType) and a.ndim != b.ndim for a, b in pairs)


def _sound(branches: Sequence[list[Expr] | ModelError]) -> list[list[Expr]]:
    """The branches with values whose evaluation raises the error in place of each that is one."""
    sound = [values for values in branches if not isinstance(values, ModelError)]
    if not sound:
        raise next(error for error in branches if isinstance(error, ModelError))
    return [_failing(values, sound[0]) if isinstance(values, ModelError) else values for values in branches]


def _failing(error: ModelError, like: list[Expr]) -> list[Expr]:
    """Values of the types of `like` whose evaluation raises `error`."""
    return [host_call("Fail", [], type_of(value), message=str(error)) for value in like]


def _of_one_type(label: str, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both values under one type; where extents, rank or kind differ, one that leaves them open."""
    a_type, b_type = type_of(a), type_of(b)
    joined = join_types(a_type, b_type)
    if joined is None:
        raise ModelError(f"{label}: its branches give {a_type} and {b_type}, which no type holds both")
    if joined in (a_type, b_type) and isinstance(joined, TensorType):
        return a, b
    opaque = [value if type_of(value) == joined else host_call("Identity", [value], joined) for value in (a, b)]
    return opaque[0], opaque[1]
