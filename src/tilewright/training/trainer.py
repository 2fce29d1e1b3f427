"""A compiled step with the parameters and the optimizer's state that it changes.

step = training_step(loss, [w1, b1, w2, b2], Adam(1e-3), outputs=[logits])
trainer = Trainer(step, tilewright.compile(step.module), {"w1": …, "b1": …, "w2": …, "b2": …})
for x, y in batches:
    loss, logits = trainer(x=x, y=y)
trainer.parameters["w1"]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.support.cache import atomic_file
from tilewright.support.packages import package
from tilewright.training.rules.average import AVERAGE
from tilewright.training.rules.optimizer import Array
from tilewright.training.step import TrainingStep


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
        wanted = self.input_names
        if set(wanted) != set(inputs):
            raise InputError(f"the step takes the inputs {', '.join(wanted)}; got {', '.join(inputs) or 'none'}")
        results = self._executable(*[inputs[name] for name in wanted], *self._values)
        split = 1 + self._step.num_outputs
        self._values = list(results[split:])
        return list(results[:split])

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of a step's inputs, in their order."""
        return tuple(var.name for var in self._step.inputs)

    @property
    def parameters(self) -> dict[str, Array]:
        """The parameters as they are now, by name."""
        return {p.name: value for p, value in zip(self._step.parameters, self._values)}

    @property
    def state(self) -> dict[str, Array]:
        """The optimizer's state as it is now, by name."""
        return dict(zip(self._step.state, self._values[len(self._step.parameters) :], strict=True))

    @property
    def averages(self) -> dict[str, Array]:
        """The moving averages of the parameters, by name. Raises `InputError` where the optimizer keeps none."""
        state, parameters = self.state, self._step.parameters
        if f"{AVERAGE}0" not in state:
            raise InputError("the optimizer keeps no averages of the parameters; Averaged(optimizer) does")
        return {parameter.name: state[f"{AVERAGE}{number}"] for number, parameter in enumerate(parameters)}

    def restore(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Go on from other parameters and state. Raises `InputError`, and changes nothing, where one does not fit."""
        wanted = self.parameters | self.state
        given = {**parameters, **state}
        if wanted.keys() != given.keys():
            odd = ", ".join(sorted(wanted.keys() ^ given.keys()))
            raise InputError(f"these are of another network or optimizer: {odd} is in one of both alone")
        for name, value in wanted.items():
            if np.shape(value) != np.shape(given[name]) or np.asarray(value).dtype != np.asarray(given[name]).dtype:
                raise InputError(
                    f"{name} is {np.asarray(given[name]).dtype}{list(np.shape(given[name]))} there, "
                    f"and {np.asarray(value).dtype}{list(np.shape(value))} here"
                )
        self._values = [np.array(given[name]) for name in wanted]

    def save_parameters(self, path: str | Path, *, averages: bool = False) -> None:
        """Write the parameters to a file of safetensors, which PyTorch reads: `safetensors.torch.load_file(path)`."""
        values = self.averages if averages else self.parameters
        arrays = {name: np.ascontiguousarray(value) for name, value in values.items()}
        contents = package("safetensors.numpy", "saving parameters", "train").save(arrays)
        with atomic_file(Path(path)) as temporary:
            temporary.write_bytes(contents)
