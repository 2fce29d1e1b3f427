"""Training: a loss and an optimizer made into one function that takes parameters and returns them.

    step = training_step(loss, [w1, b1, w2, b2], Adam(1e-3), outputs=[logits])
    trainer = Trainer(step, tilewright.compile(step.module), {"w1": …, "b1": …, "w2": …, "b2": …})
    for x, y in batches:
        loss, logits = trainer(x=x, y=y)
    trainer.parameters["w1"]

The step holds the forward pass, the backward pass (`transform.adjoint`) and the update, so all passes of the compiler
see it whole: what the backward pass needs of the forward one stays in the arena, and updates fuse with the gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.errors import InputError, TypeMismatchError
from tilewright.relay.ir.expr import Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import free_vars
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.relay.op.tensor import rsqrt, sqrt

Array = np.ndarray[Any, Any]


class Optimizer(Protocol):
    """A rule by which parameters follow their gradients, written in Relay."""

    def initial_state(self, parameters: Sequence[TensorType]) -> dict[str, Array]:
        """The initial state of the rule, by name, before the first step."""

    def update(
        self, parameters: Sequence[Expr], gradients: Sequence[Expr], state: Sequence[Expr]
    ) -> tuple[list[Expr], list[Expr]]:
        """The parameters and the state (in the order of `initial_state`) after one step."""


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent: v ← momentum v + g + weight_decay p; p ← p - learning_rate v (or g without).

    With `nesterov` the step is g + momentum v.
    """

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def initial_state(self, parameters: Sequence[TensorType]) -> dict[str, Array]:
        """A velocity for each parameter, if there is momentum."""
        return _zeros("velocity", parameters) if self.momentum else {}

    def update(
        self, parameters: Sequence[Expr], gradients: Sequence[Expr], state: Sequence[Expr]
    ) -> tuple[list[Expr], list[Expr]]:
        """The parameters and velocities after one step."""
        if self.weight_decay:
            gradients = [g + p * self.weight_decay for p, g in zip(parameters, gradients, strict=True)]
        if not self.momentum:
            return [p - g * self.learning_rate for p, g in zip(parameters, gradients, strict=True)], []
        velocities: list[Expr] = [v * self.momentum + g for v, g in zip(state, gradients, strict=True)]
        steps: Sequence[Expr] = velocities
        if self.nesterov:
            steps = [g + v * self.momentum for v, g in zip(velocities, gradients, strict=True)]
        return [p - s * self.learning_rate for p, s in zip(parameters, steps, strict=True)], velocities


@dataclass(frozen=True)
class Adam:
    """Adaptive moments (Kingma and Ba, 2014), with the corrections for the first steps."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def initial_state(self, parameters: Sequence[TensorType]) -> dict[str, Array]:
        """Two moments for each parameter, and the powers of the decay rates so far."""
        return {
            **_zeros("mean", parameters),
            **_zeros("square", parameters),
            "beta1_power": np.ones((), "float32"),
            "beta2_power": np.ones((), "float32"),
        }

    def update(
        self, parameters: Sequence[Expr], gradients: Sequence[Expr], state: Sequence[Expr]
    ) -> tuple[list[Expr], list[Expr]]:
        """The parameters, moments and powers after one step."""
        n = len(parameters)
        means = [m * self.beta1 + g * (1 - self.beta1) for m, g in zip(state[:n], gradients, strict=True)]
        squares = [s * self.beta2 + g * g * (1 - self.beta2) for s, g in zip(state[n : 2 * n], gradients, strict=True)]
        power1, power2 = state[2 * n] * self.beta1, state[2 * n + 1] * self.beta2
        rate, spread = self.learning_rate / (1.0 - power1), rsqrt(1.0 - power2)
        moved: list[Expr] = [
            p - m * rate / (sqrt(s) * spread + self.epsilon) for p, m, s in zip(parameters, means, squares, strict=True)
        ]
        return moved, [*means, *squares, power1, power2]


def _zeros(name: str, parameters: Sequence[TensorType]) -> dict[str, Array]:
    return {f"{name}{i}": np.zeros(t.shape, t.dtype.numpy) for i, t in enumerate(parameters)}


@dataclass(frozen=True)
class TrainingStep:
    """One step as a module: `main(inputs…, parameters…, state…) -> (loss, outputs…, parameters…, state…)`."""

    module: IRModule
    inputs: tuple[Var, ...]
    parameters: tuple[Var, ...]
    state: dict[str, Array]
    num_outputs: int


def training_step(
    loss: Expr, parameters: Sequence[Var], optimizer: Optimizer, outputs: Sequence[Expr] = ()
) -> TrainingStep:
    """A step that lowers the scalar `loss` by changing `parameters`; other free variables of it are its inputs.

    `outputs` are further values of the forward pass to return, such as the logits. Raises TypeMismatchError where
    the loss is no scalar of floating point, and UnsupportedError naming an operator that has no gradient.
    """
    kind = tensor_type_of(loss)
    if kind.shape != () or not kind.dtype.is_float:
        raise TypeMismatchError(f"the loss must be one number, not {kind}; take the mean or the sum of it")
    types = [tensor_type_of(p) for p in parameters]
    initial = optimizer.initial_state(types)
    state = [Var(name, TensorType(value.shape, str(value.dtype))) for name, value in initial.items()]
    moved, remembered = optimizer.update(parameters, adjoints(loss, parameters), state)
    inputs = tuple([v for v in free_vars(loss, *outputs) if v not in set(parameters)])
    names = ["loss", *[f"output{i}" for i in range(len(outputs))], *[p.name for p in parameters], *initial]
    body = Tuple([loss, *outputs, *moved, *remembered])
    main = Function([*inputs, *parameters, *state], body, attrs={"output_names": names})
    return TrainingStep(infer_type(IRModule.from_expr(main)), inputs, tuple(parameters), initial, len(outputs))


class Trainer:
    """Calls a compiled step again and again, and keeps parameters and optimizer state between the calls."""

    def __init__(self, step: TrainingStep, executable: Any, parameters: Mapping[str, Array]) -> None:
        """`executable` is what compiling `step.module` gave; `parameters` are the initial values by name."""
        missing = [p.name for p in step.parameters if p.name not in parameters]
        if missing:
            raise InputError(f"no initial value for the parameters {', '.join(missing)}")
        self._step = step
        self._executable = executable
        self._values: list[Array] = [parameters[p.name] for p in step.parameters]
        self._values += list(step.state.values())

    def __call__(self, **inputs: Array) -> list[Array]:
        """One step on the `inputs`, by name: [loss, outputs …] of before the update."""
        wanted = [v.name for v in self._step.inputs]
        if set(wanted) != set(inputs):
            raise InputError(f"the step takes the inputs {', '.join(wanted)}; got {', '.join(inputs) or 'none'}")
        results = self._executable(*[inputs[name] for name in wanted], *self._values)
        split = 1 + self._step.num_outputs
        self._values = list(results[split:])
        return list(results[:split])

    @property
    def parameters(self) -> dict[str, Array]:
        """The parameters as they are now, by name."""
        return {p.name: value for p, value in zip(self._step.parameters, self._values)}
