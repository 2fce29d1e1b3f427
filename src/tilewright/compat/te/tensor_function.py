"""Loop functions that remember the tensor expressions they were made of: `te.create_prim_func`, functions of a script.

They are compiled as any other loop function; `tir.Schedule` schedules the computations that they remember.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.errors import InputError


class TensorFunction(tir.PrimFunc):
    """A lowered function of `arguments`: tensors, computed ones among them, and scalar variables, in call order.

    `schedule` is how it was lowered; the default is plain loops. `remarks` are attributes that the program gave.
    """

    __slots__ = ("arguments", "remarks", "schedule")

    def __init__(
        self,
        name: str,
        arguments: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        schedule: te.Schedule | None = None,
    ) -> None:
        self.arguments = tuple(arguments)
        self.schedule = schedule or fresh_schedule(self.arguments)
        lowered = te.lower(self.schedule, list(self.arguments), name)
        self.remarks = dict(attrs or {})
        super().__init__(name, lowered.params, lowered.body, {**lowered.attrs, **self.remarks})

    def script(self, *_: Any, **__: Any) -> str:
        """The loops as text."""
        return repr(self)

    def show(self, *_: Any, **__: Any) -> None:
        """Print the loops."""
        print(self)

    def with_attr(self, key: str, value: Any) -> tir.PrimFunc:
        """The same function with one more attribute; "global_symbol" is its name."""
        name, attrs = (str(value), {}) if key == "global_symbol" else (self.name, {key: value})
        return TensorFunction(name, self.arguments, {**self.remarks, **attrs}, self.schedule)


def fresh_schedule(arguments: Sequence[Any]) -> te.Schedule:
    """The default schedule of what is computed among `arguments`. Raises `InputError` where nothing is."""
    computed = [t.op for t in arguments if isinstance(t, te.Tensor) and not isinstance(t.op, te.PlaceholderOp)]
    if not computed:
        raise InputError("none of the arguments is computed: pass the output tensors among them")
    return te.create_schedule(list(dict.fromkeys(computed)))


def create_prim_func(ops: Sequence[Any], index_dtype_override: str | None = None) -> TensorFunction:
    """The function "main" of the tensors `ops`, inputs and outputs in call order, with plain loops.

    Indices keep the types that they are written in, "int32" or "int64"; `index_dtype_override` names one of these and
    changes no result.
    """
    if index_dtype_override not in (None, "int32", "int64"):
        raise InputError(f"indices are int32 or int64, not {index_dtype_override}")
    return TensorFunction("main", ops)
