"""A compiled step with the parameters and the optimizer's state that it changes; it needs no part of the compiler.

step = training_step(loss, [w1, b1, w2, b2], Adam(1e-3), outputs=[logits])
trainer = Trainer(step, tilewright.compile(step.module), {"w1": …, "b1": …, "w2": …, "b2": …})
for x, y in batches:
    loss, logits = trainer(x=x, y=y)
trainer.parameters["w1"]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import InputError
from tilewright.load import load
from tilewright.training.checkpoint import Array, read_checkpoint
from tilewright.training.interface import Interface
from tilewright.training.rules.names import AVERAGE
from tilewright.training.values import fitting, write_parameters

if TYPE_CHECKING:
    from tilewright.training.step import TrainingStep


class Trainer:
    """Calls a compiled step again and again, and keeps parameters and optimizer state between the calls."""

    def __init__(self, step: TrainingStep, executable: Any, parameters: Mapping[str, Array]) -> None:
        """`executable` is what compiling `step.module` gave; `parameters` are the initial values by name."""
        missing = [p.name for p in step.parameters if p.name not in parameters]
        if missing:
            raise InputError(f"no initial value for the parameters {', '.join(missing)}")
        self._begin(step.interface, executable, {**parameters, **step.state})

    def _begin(self, interface: Interface, executable: Any, values: Mapping[str, Array]) -> None:
        self._interface = interface
        self.executable = executable
        self._values: list[Array] = [values[name] for name in (*interface.parameters, *interface.state)]

    @classmethod
    def load(cls, path: str | Path) -> Trainer:
        """The trainer of a step that `export_step` wrote as `NAME.tw`, with the values of `NAME.safetensors` beside it.

        Raises `ArtifactError`, and `InputError` where the two are not of one step.
        """
        file = Path(path)
        executable, saved = load(file), read_checkpoint(file.with_suffix(".safetensors"))
        names = [spec.name for spec in executable.inputs]
        kept = {**saved.parameters, **saved.state}
        odd = sorted(kept.keys() - set(names))
        if odd:
            raise InputError(f"{file} is no training step of these parameters: it has no input {', '.join(odd)}")
        parameters, state = (tuple(n for n in names if n in part) for part in (saved.parameters, saved.state))
        inputs = tuple(name for name in names if name not in kept)
        trainer = cls.__new__(cls)
        interface = Interface(inputs, parameters, state, len(executable.outputs) - 1 - len(kept))
        trainer._begin(interface, executable, kept)
        return trainer

    def __call__(self, **inputs: Array) -> list[Array]:
        """One step on the `inputs`, by name: [loss, outputs …] of before the update."""
        wanted = self._interface.inputs
        if set(wanted) != set(inputs):
            raise InputError(f"the step takes the inputs {', '.join(wanted)}; got {', '.join(inputs) or 'none'}")
        results = self.executable(*[inputs[name] for name in wanted], *self._values)
        split = 1 + self._interface.num_outputs
        self._values = list(results[split:])
        return list(results[:split])

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of a step's inputs, in their order."""
        return self._interface.inputs

    @property
    def parameters(self) -> dict[str, Array]:
        """The parameters as they are now, by name."""
        return dict(zip(self._interface.parameters, self._values))

    @property
    def state(self) -> dict[str, Array]:
        """The optimizer's state as it is now, by name."""
        return dict(zip(self._interface.state, self._values[len(self._interface.parameters) :], strict=True))

    @property
    def averages(self) -> dict[str, Array]:
        """The moving averages of the parameters, by name. Raises `InputError` where the optimizer keeps none."""
        state = self.state
        if f"{AVERAGE}0" not in state:
            raise InputError("the optimizer keeps no averages of the parameters; Averaged(optimizer) does")
        return {name: state[f"{AVERAGE}{number}"] for number, name in enumerate(self._interface.parameters)}

    def restore(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Go on from other parameters and state. Raises `InputError`, and changes nothing, where one does not fit."""
        self._values = list(fitting(self.parameters | self.state, {**parameters, **state}).values())

    def save_parameters(self, path: str | Path, *, averages: bool = False) -> None:
        """Write the parameters to a file of safetensors, which PyTorch reads: `safetensors.torch.load_file(path)`."""
        write_parameters(Path(path), self.averages if averages else self.parameters)
