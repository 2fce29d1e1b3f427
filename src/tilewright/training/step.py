"""A training step: a loss and an optimizer made into one function that takes parameters and returns them.

The step holds the forward pass, the backward pass (`relay/op/gradients`) and the update, so all passes of the compiler
see it whole: what the backward pass needs of the forward one stays in the arena, and updates fuse with the gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.errors import InputError, TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, free_vars
from tilewright.relay.op.gradients.adjoint import adjoints, inline_lets
from tilewright.relay.transform.fuse.fuse_attention import with_differentiable_attention
from tilewright.relay.transform.memory.rematerialize import MEMORY_LIMIT
from tilewright.training.interface import Interface
from tilewright.training.rules.loss_scale import LossScale
from tilewright.training.rules.optimizer import Array, Optimizer


@dataclass(frozen=True)
class TrainingStep:
    """One step as a module: `main(inputs…, parameters…, state…) -> (loss, outputs…, parameters…, state…)`."""

    module: IRModule
    inputs: tuple[Var, ...]
    parameters: tuple[Var, ...]
    state: dict[str, Array]
    num_outputs: int

    @property
    def interface(self) -> Interface:
        """The names of what it takes and returns."""
        inputs, parameters = (tuple(var.name for var in some) for some in (self.inputs, self.parameters))
        return Interface(inputs, parameters, tuple(self.state), self.num_outputs)


def training_step(
    loss: Expr,
    parameters: Sequence[Var],
    optimizer: Optimizer,
    outputs: Sequence[Expr] = (),
    loss_scale: LossScale | None = None,
    memory_limit: int | None = None,
) -> TrainingStep:
    """A step that lowers the scalar `loss` by changing `parameters`; other free variables of it are its inputs.

    `outputs` are further values of the forward pass to return, such as the logits. `loss_scale` keeps gradients of
    16-bit floats from being 0: for steps compiled with `precision="f16"`. `memory_limit` is the most bytes of what a
    compiled step holds between what it takes and what it returns: values of the forward pass are then computed again
    where they would not fit, and compiling raises UnsupportedError with the smallest limit where none is enough.
    Raises TypeMismatchError where the loss is no scalar of floating point, InputError for a limit that is not positive,
    and UnsupportedError naming an operator that has no gradient.
    """
    kind = checked_loss(loss)
    loss, *outputs = children(with_differentiable_attention(Tuple([loss, *outputs])))
    state, initial = optimizer_state(optimizer, parameters, loss_scale)
    if loss_scale is None:
        moved, remembered = optimizer.update(parameters, adjoints(loss, parameters), state)
    else:
        scaled = adjoints(loss, parameters, op.cast(state[0], kind.dtype))
        moved, remembered = loss_scale.update(optimizer, parameters, scaled, state)
    return assembled_step([loss, *outputs], parameters, state, initial, [*moved, *remembered], memory_limit)


def optimizer_state(
    optimizer: Optimizer, parameters: Sequence[Var], loss_scale: LossScale | None = None
) -> tuple[list[Var], dict[str, Array]]:
    """The variables of an optimizer's state, and their first values by name; that of `loss_scale` first."""
    initial = (loss_scale.initial_state() if loss_scale else {}) | optimizer.initial_state(parameters)
    require_own_names(parameters, initial)
    return [Var(name, TensorType(value.shape, str(value.dtype))) for name, value in initial.items()], initial


def assembled_step(
    results: Sequence[Expr],
    parameters: Sequence[Var],
    state: Sequence[Var],
    initial: dict[str, Array],
    updated: Sequence[Expr],
    memory_limit: int | None = None,
) -> TrainingStep:
    """The step that returns `results`, the loss first, and what parameters and state (at first `initial`) become.

    Raises `InputError` for a limit that is not positive.
    """
    inputs = tuple([v for v in free_vars(*results) if v not in set(parameters)])
    count = len(results) - 1
    names = ["loss", *[f"output{i}" for i in range(count)], *[p.name for p in parameters], *initial]
    body = Tuple([*results, *updated])
    attrs = {"output_names": names, **limit_attrs(memory_limit)}
    main = Function([*inputs, *parameters, *state], body, attrs=attrs)
    return TrainingStep(infer_type(IRModule.from_expr(main)), inputs, tuple(parameters), initial, count)


def limit_attrs(memory_limit: int | None) -> dict[str, int]:
    """The attributes of a function whose memory is limited. Raises `InputError` for a limit that is not positive."""
    if memory_limit is None:
        return {}
    if memory_limit <= 0:
        raise InputError(f"the memory limit is a number of bytes, and {memory_limit} is none")
    return {MEMORY_LIMIT: int(memory_limit)}


def checked_results(
    loss: Expr, outputs: Sequence[Expr], parameters: Sequence[Var], values: Collection[str]
) -> list[Expr]:
    """Loss and outputs without lets, with attention as `training_step` has it.

    Raises as `checked_loss`, and `InputError` for a parameter without a value.
    """
    results = list(children(with_differentiable_attention(inline_lets(Tuple([loss, *outputs])))))
    checked_loss(results[0])
    missing = [p.name for p in parameters if p.name not in values]
    if missing:
        raise InputError(f"no initial value for the parameters {', '.join(missing)}")
    return results


def checked_loss(loss: Expr) -> TensorType:
    """The type of a loss. Raises `TypeMismatchError` where it is no scalar of floating point."""
    kind = tensor_type_of(loss)
    if kind.shape != () or not kind.dtype.is_float:
        raise TypeMismatchError(f"the loss must be one number, not {kind}; take the mean or the sum of it")
    return kind


def require_own_names(parameters: Sequence[Var], state: Collection[str]) -> None:
    """Raise `InputError` where two parameters, or a parameter and an array of the optimizer's, have one name."""
    seen = set(state)
    for parameter in parameters:
        if parameter.name in seen:
            whose = "the optimizer's state has" if parameter.name in state else "another parameter has"
            raise InputError(f"a parameter is named {parameter.name}, as {whose} it: rename it")
        seen.add(parameter.name)
