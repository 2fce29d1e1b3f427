"""`Program` of several devices: the segments of a model on a device with its own memory, and others on the host.

Each part is a program of its kind. Values stay where they were computed until a segment or an operator elsewhere reads
them; a device that queues its work computes while the host goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from tilewright.errors import ArtifactError
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.native import PoolCode
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.program import Caller, Runner, Transfers, program_class
from tilewright.runtime.program import Program as AnyProgram
from tilewright.runtime.signature import TensorSpec


class Program(AnyProgram):
    """A model in parts: the first is the device's, the last the host's."""

    keeps_values = True

    def __init__(self, manifest: Manifest, parts: Sequence[AnyProgram], weights: Array) -> None:
        super().__init__(manifest, weights)
        self.device, self.host = parts[0], parts[-1]
        numbered = [(part, one.segments) for part, one in zip(parts, manifest.parts, strict=True)]
        self._owners = {segment: (part, i) for part, numbers in numbered for i, segment in enumerate(numbers)}

    @classmethod
    def load(cls, manifest: Manifest, code: bytes, weights: Array) -> Self:
        """Load each part on its device."""
        codes = split_objects(code)
        if len(codes) != len(manifest.parts) or len(codes) < 2:
            raise ArtifactError(
                f"the model has {len(manifest.parts)} parts and code for {len(codes)}. Compile it again"
            )
        parts = [
            program_class(one.device).load(manifest.part(number), codes[number], weights)
            for number, one in enumerate(manifest.parts)
        ]
        return cls(manifest, parts, weights)

    def runner(self, number: int) -> Runner:
        """That of the segment's part."""
        part, local = self._owners[number]
        return part.runner(local)

    def caller(self, number: int) -> Caller:
        """That of the segment's part; to the host values are copied that are on the device."""
        part, local = self._owners[number]
        call = part.caller(local)
        if part is not self.host:
            return call
        return lambda values, workers: call([self.to_host(value) for value in values], workers)

    def profile(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, check: Callable[[int], None]
    ) -> list[KernelTime]:
        """That of the segment's part."""
        part, local = self._owners[number]
        return part.profile(local, arrays, workers, repeat, check)

    def arguments(self, number: int, values: Sequence[Any]) -> list[Any]:
        """As the segment's part takes them."""
        part, local = self._owners[number]
        return part.arguments(local, values if part is self.device else [self.to_host(value) for value in values])

    def bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """An input where it is: on the device or the host."""
        return self.device.bind(value, spec, specs)

    def bind_on_host(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """An input as an array in the host's memory."""
        return self.device.bind_on_host(value, spec, specs)

    def on_device(self, value: Any) -> Any:
        """A copy of an array in the device's memory."""
        return self.device.on_device(value)

    def to_host(self, value: Any) -> Any:
        """A value in the host's memory."""
        return self.device.to_host(value)

    def returned(self, values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Results as the device returns them."""
        return self.device.returned(values, given)

    def facts(self) -> Mapping[str, Any]:
        """Figures of the device."""
        return self.device.facts()

    def begin(self) -> None:
        """A new run."""
        self.device.begin()

    @property
    def transfers(self) -> Transfers:
        """Copies of the last run between host and device."""
        return self.device.transfers

    @property
    def pool(self) -> PoolCode | None:
        """The host's worker pool."""
        return self.host.pool

    def workers(self, threads: int | None) -> int:
        """Workers of the host's segments."""
        return self.host.workers(threads)

    def reserve(self, workers: int) -> None:
        """Memory of the host's segments."""
        self.host.reserve(workers)
