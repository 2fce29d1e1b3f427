"""The hub's kernel: the gradients of all workers summed, in their order, and an optimizer's step, in one pass.

An optimizer comes over the wire as names and numbers, and from a closed list: no code of a peer is run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.relay.ir.expr import Expr, Function, Tuple, Var, const
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.training.rules.adam import Adam, AdamW
from tilewright.training.rules.clip import ClippedByValue
from tilewright.training.rules.lion import Lion
from tilewright.training.rules.optimizer import Array, Optimizer
from tilewright.training.rules.rmsprop import RMSProp
from tilewright.training.rules.schedule import Cosine, Exponential, Linear, Polynomial
from tilewright.training.rules.sgd import SGD

_OPTIMIZERS = {kind.__name__: kind for kind in (SGD, Adam, AdamW, RMSProp, Lion, ClippedByValue)}
_SCHEDULES = {kind.__name__: kind for kind in (Linear, Polynomial, Cosine, Exponential)}
_KINDS: Mapping[str, Any] = {**_OPTIMIZERS, **_SCHEDULES}
#: A modifier, an optimizer and its schedule.
_DEEPEST = 3


def encoded(optimizer: Any) -> dict[str, Any]:
    """An optimizer as names and numbers. Raises `InputError` for one that a hub does not know."""
    if type(optimizer).__name__ not in _KINDS:
        raise InputError(f"a hub has no {type(optimizer).__name__}; it has {', '.join(_KINDS)}")
    fields = {one.name: getattr(optimizer, one.name) for one in dataclasses.fields(optimizer)}
    plain = {name: value if isinstance(value, int | float) else encoded(value) for name, value in fields.items()}
    return {"kind": type(optimizer).__name__, **plain}


def decoded(stated: Any) -> Optimizer:
    """The optimizer that `encoded` has described. Raises `InputError` for anything else."""
    found: Any = _decoded(stated, _DEEPEST)
    if type(found).__name__ not in _OPTIMIZERS:
        raise InputError(f"a hub needs an optimizer, one of {', '.join(_OPTIMIZERS)}")
    return cast(Optimizer, found)


def _decoded(stated: Any, depth: int) -> Any:
    if type(stated) in (int, float, bool):
        return stated
    kind = _KINDS.get(str(stated.get("kind"))) if isinstance(stated, dict) else None
    if kind is None or depth == 0:
        raise InputError(f"{stated!r:.80} is no optimizer of a hub; it has {', '.join(_KINDS)}")
    fields = {name: _decoded(value, depth - 1) for name, value in stated.items() if name != "kind"}
    try:
        return kind(**fields)
    except TypeError as error:
        raise InputError(f"{kind.__name__} of a hub: {error}") from None


class Kernel:
    """A compiled pass over one chunk: gradients of all workers, parameters and state in; parameters and state out."""

    def __init__(self, optimizer: Optimizer, workers: int, elements: int) -> None:
        """Raises what compiling raises."""
        kind = TensorType((elements,), "float32")
        parameter = Var("parameters", kind)
        gradients = [Var(f"gradients{rank}", kind) for rank in range(workers)]
        self.first: dict[str, Array] = optimizer.initial_state([parameter])
        state = [Var(name, TensorType(value.shape, str(value.dtype))) for name, value in self.first.items()]
        total: Expr = gradients[0]
        for gradient in gradients[1:]:
            total = total + gradient
        moved, kept = optimizer.update([parameter], [total * const(1 / workers, "float32")], state)
        names = ["new parameters", *[f"new {name}" for name in self.first]]
        main = Function([*gradients, parameter, *state], Tuple([*moved, *kept]), attrs={"output_names": names})
        self._executable = compile(infer_type(IRModule.from_expr(main)), threads=1)
        self._names = [spec.name for spec in self._executable.inputs]

    def copy(self) -> Kernel:
        """The same with memory of its own, for another thread."""
        found = Kernel.__new__(Kernel)
        found.first, found._names = self.first, self._names
        kept: Any = self._executable
        found._executable = type(kept)(kept.object_code, kept.manifest, kept._weights, 1)
        return found

    def __call__(self, gradients: list[Array], before: list[Array], after: list[Array]) -> None:
        """One step of a chunk whose parameters and state are `before`, into `after`."""
        self._executable.run(dict(zip(self._names, (*gradients, *before), strict=True)), after)
