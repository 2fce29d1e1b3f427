"""Kernels of a device as bytes: their text, machine code for some architectures, and how functions launch them.

    code = DeviceCode("cuda", False, text, functions, {"sm_90": cubin}, "sm_90")
    DeviceCode.decode(code.encode())
    best, kernels = load_best([code, code_for_sm_80], device)

Where architectures differ in what was chosen for kernels, there is code for each, and a device takes the best that it
runs. The functions of all have the same names and parameters. The bytes are a line of JSON, which says how long each
piece of machine code is, and those pieces, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.errors import ArtifactError, EnvironmentError_
from tilewright.runtime.gpu.api import DeviceApi, Kernel
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_driver import DriverError
from tilewright.runtime.gpu.module import DeviceFunctionInfo


@dataclass(frozen=True)
class DeviceCode:
    """Functions of kernels for a `kind` of device; `binaries` is machine code of them all, by architecture.

    `arch` is the architecture that the kernels were chosen for, where the kind has several.
    """

    kind: str
    emulate: bool
    source: str
    functions: Sequence[DeviceFunctionInfo]
    binaries: Mapping[str, bytes] = field(default_factory=dict)
    arch: str = ""

    def encode(self) -> bytes:
        """The code as bytes."""
        head = {
            "kind": self.kind,
            "emulate": self.emulate,
            "arch": self.arch,
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
            arch = str(head.get("arch", ""))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"the device code is damaged ({error!r}). Compile the model again") from None
        if sum(lengths.values()) != len(rest) or min(lengths.values(), default=0) < 0:
            raise ArtifactError("the device code is damaged: its machine code is cut short. Compile the model again")
        binaries, position = {}, 0
        for name, length in lengths.items():
            binaries[name] = rest[position : position + length]
            position += length
        return DeviceCode(kind, emulate, source, functions, binaries, arch)

    @property
    def kernel_names(self) -> list[str]:
        """The names of all kernels."""
        return [launch["kernel"] for info in self.functions for launch in info.launches]


def load_best(codes: Sequence[DeviceCode], api: DeviceApi) -> tuple[DeviceCode, dict[str, Kernel]]:
    """The code that suits a device best, and its kernels there: machine code where some is for it, else the text.

    Raises `ArtifactError` where all of it is for other architectures, `EnvironmentError_` where none of the machine
    code is for this one and the text cannot be compiled here.
    """
    if not isinstance(api, CudaDevice):
        return codes[0], api.compile(codes[0].source, codes[0].kernel_names)
    of = {arch: code for code in codes for arch in code.binaries}
    for arch in api.fitting(of):
        try:
            return of[arch], api.load(of[arch].binaries[arch], of[arch].kernel_names)
        except DriverError:  # the driver is older than this code: what follows may do
            if api.lost is not None:
                raise
    code = _text_for(codes, api)
    try:
        return code, api.compile(code.source, code.kernel_names)
    except EnvironmentError_ as error:
        if api.lost is not None or not of:
            raise
        raise EnvironmentError_(
            f"{api.name} is {api.arch}, and the model's machine code for {', '.join(of)} does not run on it; its text "
            f"would, but cannot be compiled here ({error}). Compile the model with -arch={api.own_architecture}"
        ) from None


def _text_for(codes: Sequence[DeviceCode], api: CudaDevice) -> DeviceCode:
    """The code whose text can be compiled for a GPU, chosen for the newest architecture."""
    texts = {code.arch.replace("sm_", "compute_"): code for code in codes}
    fitting = [texts[arch] for arch in api.fitting(texts)] or [code for code in codes if not code.arch]
    if not fitting:
        made_for = ", ".join(code.arch for code in codes)
        raise ArtifactError(
            f"the model was compiled for {made_for}, and {api.name} is {api.arch}: compile it with "
            f"-arch={api.own_architecture}, or for several architectures as -arch={api.arch},{codes[-1].arch}"
        )
    return fitting[0]
