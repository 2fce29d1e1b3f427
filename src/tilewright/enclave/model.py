"""A model in an enclave as a `Model`: `run` and calls work as on this machine."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright.enclave.build import EnclaveSource
from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.memory import Array
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import TensorSpec, bind, by_name
from tilewright.runtime.types import Value


class EnclaveModel(Model):
    """A model whose code computes and does nothing else; subclasses say what holds it to that."""

    executor: ClassVar[str] = "enclave"

    def __init__(self, source: EnclaveSource) -> None:
        """Names and shapes; subclasses build the program."""
        self.source = source
        self.inputs, self.outputs = source.interface.inputs, source.interface.outputs
        self.target, self.version, self.threads = source.target, source.version, 1

    @abstractmethod
    def _answer(self, arrays: Sequence[Array], runs: int) -> list[Array]:
        """The outputs after `runs` runs."""

    @abstractmethod
    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs, without what it takes to pass inputs and outputs."""

    def set_threads(self, threads: int | None = None) -> None:
        """An enclave has one."""

    def _bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        return bind(value, spec, specs)

    def _bound(self, inputs: Mapping[str, Value]) -> list[Array]:
        return [np.ascontiguousarray(array) for array in by_name(inputs, self.inputs, self._bind)]

    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        results = self._answer([np.ascontiguousarray(array) for array in arrays], 1)
        if outputs is None:
            return results
        for given, array in zip(outputs, results, strict=True):
            given[...] = array
        return list(outputs)

    def _check_code(self, code: int) -> None:
        if code:
            raise InputError(f"the model stopped in the enclave: {self.source.interface.errors[code - 1]}")

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """Raise `UnsupportedError`: an enclave shows nothing but whole runs."""
        raise UnsupportedError("kernels are not timed one by one in an enclave; leave out --enclave")

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Raise `UnsupportedError`: a model for an enclave is saved as C source."""
        raise UnsupportedError("a model for an enclave is written as C: tilewright compile MODEL -o model.c")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source.name})"
