"""Kernels of a device as bytes: their text, machine code for some architectures, and how functions launch them.

    code = DeviceCode("cuda", False, text, functions, {"sm_90": cubin})
    DeviceCode.decode(code.encode())

The bytes are a line of JSON, which says how long each piece of machine code is, and those pieces, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.errors import ArtifactError
from tilewright.runtime.gpu.api import DeviceApi, Kernel
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_driver import DriverError
from tilewright.runtime.gpu.module import DeviceFunctionInfo


@dataclass(frozen=True)
class DeviceCode:
    """Functions of kernels for a `kind` of device; `binaries` is machine code of them all, by architecture."""

    kind: str
    emulate: bool
    source: str
    functions: Sequence[DeviceFunctionInfo]
    binaries: Mapping[str, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The code as bytes."""
        head = {
            "kind": self.kind,
            "emulate": self.emulate,
            "source": self.source,
            "functions": [info.to_json() for info in self.functions],
            "binaries": {arch: len(code) for arch, code in self.binaries.items()},
        }
        return b"".join([json.dumps(head).encode(), b"\n", *self.binaries.values()])

    @staticmethod
    def decode(data: bytes) -> DeviceCode:
        """The inverse of `encode`. Raises `ArtifactError` for other bytes."""
        line, _, rest = data.partition(b"\n")
        try:
            head = json.loads(line)
            lengths = {str(arch): int(length) for arch, length in head["binaries"].items()}
            functions = [DeviceFunctionInfo.from_json(info) for info in head["functions"]]
            kind, emulate, source = str(head["kind"]), bool(head["emulate"]), str(head["source"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"the device code is damaged ({error!r}). Compile the model again") from None
        if sum(lengths.values()) != len(rest) or min(lengths.values(), default=0) < 0:
            raise ArtifactError("the device code is damaged: its machine code is cut short. Compile the model again")
        binaries, position = {}, 0
        for arch, length in lengths.items():
            binaries[arch] = rest[position : position + length]
            position += length
        return DeviceCode(kind, emulate, source, functions, binaries)

    def kernels(self, api: DeviceApi) -> dict[str, Kernel]:
        """The kernels on a device: of machine code where there is some for it, else compiled from the text."""
        names = [launch["kernel"] for info in self.functions for launch in info.launches]
        if isinstance(api, CudaDevice):
            for arch in api.fitting(self.binaries):
                try:
                    return api.load(self.binaries[arch], names)
                except DriverError:  # the driver is older than this code: what follows may do
                    if api.lost is not None:
                        raise
        return api.compile(self.source, names)
