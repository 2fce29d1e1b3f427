"""`tvm.runtime.vm.VirtualMachine`: a model compiled for the virtual machine, run by the name of its function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.relay.bytecode_machine import BytecodeProgram
from tilewright.compat.relay.evaluation import unflatten
from tilewright.compat.relay.executor import ExecutorFactory
from tilewright.compat.runtime.array import to_numpy
from tilewright.compat.runtime.benchmark import BenchmarkResult
from tilewright.compat.runtime.values import to_classic
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.values import flatten


class VirtualMachine:
    """A compiled model with the methods of the classic virtual machine."""

    def __init__(self, exe: ExecutorFactory, device: Any = None, memory_cfg: Any = None) -> None:
        self._exe = exe.with_entries(invoke=self.invoke)
        self.init(device)
        self._model: Any = exe.executable
        self._type = _result_type(exe)
        self._inputs: dict[str, list[Any]] = {}
        self._outputs: Sequence[Any] | None = None

    def init(self, device: Any) -> None:
        """Say which device to run on, as v0.6 and v0.7 do after making the machine."""
        self._exe.require(device)

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Set the inputs that the next run without arguments takes."""
        is_entered = isinstance(self._model, BytecodeProgram)
        specs = (self._model.entered_at(func_name) if is_entered else self._model).inputs[len(args) :]
        self._inputs[func_name] = [*args, *[named[spec.name] for spec in specs]]

    def set_one_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Set one input: by its number or name and a value, or by a keyword."""
        given = dict(named) if not args else {args[0]: args[1]}
        if len(given) != 1 or len(args) not in (0, 2):
            raise InputError("set_one_input takes one input: a number or name and a value, or one keyword")
        key, value = next(iter(given.items()))
        position = key if isinstance(key, int) else self.get_input_index(key)
        if not 0 <= position < len(self._model.inputs):
            raise InputError(f"the model has no input {key!r}; it has: {', '.join(s.name for s in self._model.inputs)}")
        self._inputs.setdefault(func_name, [None] * len(self._model.inputs))[position] = value

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The position of the input called `input_name`; -1 if there is none."""
        names = [spec.name for spec in self._model.inputs]
        return names.index(input_name) if input_name in names else -1

    def invoke(self, func_name: str, *args: Any, **named: Any) -> Any:
        """Run the function `main`: its value, an `ADT` of the fields where it is a tuple or of a data type."""
        model = self._model
        if isinstance(model, BytecodeProgram):
            model = model.entered_at(func_name)
        elif func_name != "main":
            raise UnsupportedError(f"compiled programs are entered at 'main', not at {func_name!r}")
        if args or named:
            self.set_input(func_name, *args, **named)
        values = [to_numpy(value) for value in self._inputs.get(func_name, [])]
        if len(values) == len(model.inputs):
            values = [*map(_fitting, values, model.inputs)]
        found = model(*values)
        leaves = found if isinstance(found, list) else [found]
        value = to_classic(found if self._type is None else unflatten(leaves, self._type))
        self._outputs = flatten(value)
        return value

    def invoke_stateful(self, func_name: str, *args: Any, **named: Any) -> None:
        """Run the function and keep its results for `get_outputs`."""
        self.invoke(func_name, *args, **named)

    def run(self, *args: Any, **named: Any) -> Any:
        """Run `main`."""
        return self.invoke("main", *args, **named)

    def get_outputs(self) -> Sequence[Any]:
        """The outputs of the last run; before the first one, of a run on the inputs that were set."""
        if self._outputs is None:
            self.invoke("main")
        assert self._outputs is not None
        return self._outputs

    def benchmark(
        self,
        device: Any,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **named: Any,
    ) -> BenchmarkResult:
        """Seconds of a run on the inputs given: `repeat` times the mean of `number` runs, or of as many as take
        `min_repeat_ms`.

        Inputs and outputs lie in the memory that the processor computes in, so `end_to_end`, which counts copying
        them to the device, times the same.
        """
        self.set_input(func_name, *args, **named)
        return self._exe.time_evaluator("invoke", device, number, repeat, min_repeat_ms)(func_name)


def _fitting(value: Any, spec: Any) -> Any:
    """An array or list of one element as the scalar that is expected: the classic machine takes the element."""
    one = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    is_scalar = not tuple(spec.shape) and not isinstance(one, tuple) and np.size(one) == 1
    return np.reshape(one, ()) if is_scalar else value


def _result_type(exe: ExecutorFactory) -> relay.Type | None:
    """The type of the result of `main`, where the program is at hand; a model read from a file has its leaves only."""
    if exe.ir_mod is None:
        return None
    found = infer_type(exe.ir_mod)["main"].checked_type
    return found.ret_type if isinstance(found, relay.FuncType) else None
