"""The runtime's half of the toy: plans run call by call in a memory that arrays of the host are copied to and from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.json import load_json
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.plan import ExecutionPlan, KernelCall, Location
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.program import Program, Runner
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]


class Memory:
    """The memory of the device: bytes by address, which no array of the host shares."""

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.uint8)
        self.copied_in = self.copied_out = 0

    def allocate(self, nbytes: int) -> int:
        """The address of `nbytes` more bytes, a multiple of 256."""
        address = len(self._bytes)
        self._bytes = np.concatenate([self._bytes, np.zeros(-(-max(nbytes, 1) // 256) * 256, np.uint8)])
        return address

    def copy_in(self, address: int, array: Array) -> None:
        """Host to device."""
        self.store(address, array)
        self.copied_in += array.nbytes

    def copy_out(self, address: int, array: Array) -> None:
        """Device to host."""
        array.reshape(-1).view(np.uint8)[:] = self._bytes[address : address + array.nbytes]
        self.copied_out += array.nbytes

    def load(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A tensor, as a kernel reads it."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._bytes[address : address + nbytes].copy().view(dtype).reshape(shape)

    def store(self, address: int, array: Array) -> None:
        """Write a tensor."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._bytes[address : address + data.size] = data


class Segment:
    """A plan, and the addresses of its inputs, outputs and arena."""

    def __init__(self, plan: ExecutionPlan, memory: Memory, weights: int) -> None:
        self.plan = plan
        self.addresses = {
            "input": [memory.allocate(_nbytes(spec)) for spec in plan.inputs],
            "output": [memory.allocate(_nbytes(spec)) for spec in plan.outputs],
        }
        self.bases = {"weights": weights, "arena": memory.allocate(plan.arena_bytes)}

    def address(self, where: Location) -> int:
        """The address of a kernel's argument."""
        if where.space in self.addresses:
            return self.addresses[where.space][where.offset]
        return self.bases[where.space] + where.offset


class ToyProgram(Program):
    """A model on the toy."""

    def __init__(self, manifest: Manifest, kernels: dict[str, Function], weights: Array) -> None:
        super().__init__(manifest, weights)
        self.kernels, self.memory = kernels, Memory()
        stored = self.memory.allocate(weights.nbytes)
        self.memory.copy_in(stored, weights)
        self.segments = [Segment(plan, self.memory, stored) for plan in self.plans]

    @classmethod
    def load(cls, manifest: Manifest, code: bytes, weights: Array) -> Self:
        """Read the functions back."""
        texts = {name: text for part in split_objects(code) if part for name, text in json.loads(part).items()}
        return cls(manifest, {name: _function(text) for name, text in texts.items()}, weights)

    def runner(self, number: int) -> Runner:
        """Inputs in, kernel by kernel, outputs out."""
        segment = self.segments[number]
        shapes = [spec.static_shape for spec in segment.plan.outputs]

        def run(arrays: Sequence[Array], given: Sequence[Array] | None, workers: int) -> tuple[list[Array], int]:
            for address, array in zip(segment.addresses["input"], arrays):
                self.memory.copy_in(address, array)
            for call in segment.plan.kernels:
                self._call(segment, call)
            results = self.results(number, given, shapes)
            for address, array in zip(segment.addresses["output"], results):
                self.memory.copy_out(address, array)
            return results, 0

        return run

    def profile(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, check: Callable[[int], None]
    ) -> list[KernelTime]:
        """One run, each call with its time."""
        segment, rows = self.segments[number], []
        for address, array in zip(segment.addresses["input"], arrays):
            self.memory.copy_in(address, array)
        for call in segment.plan.kernels:
            start = time.perf_counter()
            self._call(segment, call)
            rows.append(KernelTime(call.name, call.source_text, time.perf_counter() - start))
        return rows

    def _call(self, segment: Segment, call: KernelCall) -> None:
        addresses = [segment.address(arg) for arg in call.args]
        if call.is_copy:
            nbytes = int(call.name.rpartition("_")[2])
            self.memory.store(addresses[1], self.memory.load(addresses[0], (nbytes,), np.dtype(np.uint8)))
            return
        function = self.kernels[call.name]
        types = [type_ for param in function.params for type_ in tensor_types(param.checked_type)]
        values = [self.memory.load(address, *_form(type_)) for address, type_ in zip(addresses, types)]
        for address, result in zip(addresses[len(types) :], interpret(function, values), strict=True):
            self.memory.store(address, result)


def _form(type_: TensorType) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return tuple(int(dim) for dim in type_.shape), DType(type_.dtype).numpy


def _nbytes(spec: Any) -> int:
    return int(np.prod(spec.static_shape, dtype=np.int64)) * spec.numpy.itemsize


def _function(text: str) -> Function:
    return infer_type(IRModule.from_expr(load_json(text)))["main"]
