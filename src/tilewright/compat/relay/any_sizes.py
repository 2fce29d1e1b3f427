"""Programs with sizes `relay.Any()`, where two of them turn out to differ: an axis of 1 against one that is longer.

Compiled code takes sizes that meet in one operator to be equal, and says so where they are not. The classic stack
broadcasts one of them when it runs; here the program is compiled once more, for the sizes that came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import relay
from tilewright.compat.ir.module import IRModule
from tilewright.errors import InputError, TilewrightError
from tilewright.relay.ir.visitor import substitute
from tilewright.runtime.model import Model

#: Compiles a module.
Compile = Callable[[IRModule], Model]
#: Sizes that a program is kept compiled for.
_KEPT = 32


class Sized:
    """`model`, compiled from `mod`, which is compiled by `compiled` for sizes that it does not take."""

    def __init__(self, mod: IRModule, model: Model, compiled: Compile) -> None:
        self._mod, self._model, self._compiled = mod, model, compiled
        self._single: dict[tuple[Any, ...], Model] = {}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for the parameters of `main` in their order.

        Raises `InputError` for sizes that no program of this text takes.
        """
        shapes = tuple(getattr(value, "shape", None) for value in inputs)
        if shapes in self._single:
            return _run(self._single[shapes], inputs)
        try:
            return _run(self._model, inputs)
        except InputError as error:
            fixed = _of_sizes(self._mod, shapes)
            if fixed is None:
                raise
            try:
                model = self._compiled(fixed)
            except TilewrightError:
                raise error from None
        if len(self._single) == _KEPT:
            self._single.pop(next(iter(self._single)))
        self._single[shapes] = model
        return _run(model, inputs)


def _run(model: Model, inputs: Sequence[Any]) -> list[Any]:
    return model.run(dict(zip([spec.name for spec in model.inputs], inputs, strict=True)))


def _of_sizes(mod: IRModule, shapes: Sequence[Any]) -> IRModule | None:
    """`mod` with these shapes in place of the symbolic dimensions of `main`; None where it has none, or others
    do not fit.
    """
    main: relay.Function = mod["main"]
    fresh: list[relay.Var] = []
    is_open = False
    for param, shape in zip(main.params, shapes, strict=True):
        type_ = param.checked_type
        if not isinstance(type_, relay.TensorType) or shape is None or len(shape) != len(type_.shape):
            return None
        if any(isinstance(dim, int) and dim != size for dim, size in zip(type_.shape, shape)):
            return None
        is_open = is_open or type_.has_any
        fresh.append(relay.var(param.name, shape=shape, dtype=str(type_.dtype)))
    if not is_open:
        return None
    body = substitute(main.body, dict(zip(main.params, fresh, strict=True)))
    changed = IRModule.of(mod.with_functions(mod.functions))
    changed["main"] = relay.Function(fresh, body, attrs=main.attrs)
    return changed
