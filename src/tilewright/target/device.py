"""Targets that are no host processor: GPUs and what is programmed like one.

Target("opencl")
Target("cuda -arch=sm_90")
Target("cuda -arch=sm_80,sm_90a")                   code for both, and PTX for GPUs newer than these
Target("cuda:1")                                    the second NVIDIA GPU of the machine that runs it
Target("cuda -emulate=1")                           CUDA text compiled for the host's processor, for tests
Target("opencl -max_threads_per_block=256")
Target("vulkan -integer_bits=32")                   for GPUs without integers of other sizes: parts of words, or two
Target("opencl -device=cpu")                        OpenCL on a processor: kernels of one thread a block, in vectors
"""

from __future__ import annotations

import re

from tilewright.errors import TargetError
from tilewright.target.target import Target, made, spelled

#: Figures of each kind where the target does not set them: threads and shared bytes of a block, threads of a warp,
#: the widest vector access in bytes (CUDA code has several accesses for a wide one), and the bytes of a thread's own
#: arrays (0: the language names no limit; CUDA C++ Programming Guide, table of technical specifications; WebGPU
#: Shading Language, section on limits).
_DEFAULTS: dict[str, dict[str, int]] = {
    "opencl": {"max_threads_per_block": 1024, "max_shared_memory_per_block": 32768, "thread_warp_size": 1,
               "max_vector_bytes": 16, "max_local_memory_per_thread": 0},
    "cuda": {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32,
             "max_vector_bytes": 64, "max_local_memory_per_thread": 524288},
    "metal": {"max_threads_per_block": 1024, "max_shared_memory_per_block": 32768, "thread_warp_size": 32,
              "max_vector_bytes": 16, "max_local_memory_per_thread": 0},
    "vulkan": {"max_threads_per_block": 256, "max_shared_memory_per_block": 32768, "thread_warp_size": 1,
               "max_vector_bytes": 16, "max_local_memory_per_thread": 0},
    "webgpu": {"max_threads_per_block": 256, "max_shared_memory_per_block": 16384, "thread_warp_size": 1,
               "max_vector_bytes": 16, "max_local_memory_per_thread": 8192},
}  # fmt: skip

#: Bytes of shared memory that a block may ask for at its launch, by CUDA's compute capability (the same guide).
_DYNAMIC_SHARED = {"75": 64 << 10, "80": 163 << 10, "86": 99 << 10, "87": 163 << 10, "89": 99 << 10, "90": 227 << 10,
                   "100": 227 << 10, "103": 227 << 10, "120": 99 << 10, "121": 99 << 10}  # fmt: skip


_ARCHITECTURE = re.compile(r"sm_(\d+)([af]?)")

#: Options of one kind of device.
_OF_ONE_KIND = {"arch": "cuda", "device": "opencl", "integer_bits": "vulkan"}
#: Options whose values are words.
_TEXT_OPTIONS = ("arch", "device")

#: Kinds of device whose languages have warp shuffles.
_SHUFFLING_KINDS = ("cuda", "metal")


@spelled
class DeviceTarget(Target):
    """A device that runs kernels of thread blocks; equal by its canonical spelling.

    `max_threads_per_block`, `max_shared_memory_per_block` (bytes), `max_local_memory_per_thread` (bytes; 0: any),
    `thread_warp_size` and `max_vector_bytes` bound what a kernel may use; `architectures` are the compute capabilities
    of CUDA devices to make code for, the oldest first, `arch` that one ("sm_80"); `emulate` is 1 for CUDA on the host.
    `integer_bits` is 32 for Vulkan devices that have integers of no other size, else 0. `device` is "cpu" for an OpenCL
    device that is a processor: it gets the schedules of processors, not those of GPUs.
    `ordinal` is the number of the device among those of its kind on the machine that runs the code, None the usual one.
    """

    __slots__ = ("arch", "architectures", "device", "emulate", "integer_bits", "max_local_memory_per_thread",
                 "max_shared_memory_per_block", "max_threads_per_block", "max_vector_bytes", "ordinal",
                 "thread_warp_size")  # fmt: skip
    KINDS = tuple(_DEFAULTS)
    has_thread_blocks = True
    arch: str
    architectures: tuple[str, ...]
    device: str
    ordinal: int | None
    integer_bits: int

    @classmethod
    def parse(cls, spec: str) -> DeviceTarget:
        """The device that `spec` spells. Raises `TargetError` for an option it does not have."""
        first, *words = spec.split()
        kind, _, number = first.partition(":")
        values: dict[str, int | str] = {**_DEFAULTS[kind], "emulate": 0, "integer_bits": 0, "device": ""}
        values["arch"] = "sm_80" if kind == "cuda" else ""
        for word in words:
            name, _, text = word.lstrip("-").partition("=")
            known = [n for n in values if kind == _OF_ONE_KIND.get(n, kind)]
            if name not in known or not text or not word.startswith("-"):
                options = ", ".join(f"-{n}=" for n in known)
                raise TargetError(f"target {spec!r}: unknown option {word!r}; known: {options}")
            if name not in _TEXT_OPTIONS and not text.isdigit():
                raise TargetError(f"target {spec!r}: {word} is not a whole number")
            if name == "device" and text != "cpu":
                raise TargetError(
                    f"target {spec!r}: {word} is no kind of OpenCL device to choose schedules for; write -device=cpu"
                )
            values[name] = text if name in _TEXT_OPTIONS else int(text)
        if values["integer_bits"] not in (0, 32):
            raise TargetError(f"target {spec!r}: kernels compute with integers of 32 bits, or of all sizes without it")
        if values["device"]:
            values["max_vector_bytes"] = 0  # longer vectors than OpenCL's are written out
        architectures = _architectures(str(values["arch"]), spec) if kind == "cuda" else ("",)
        values["arch"] = ",".join(architectures)
        words = [f"-{name}={value}" for name, value in values.items() if value not in ("", 0)]
        values["arch"] = architectures[0]
        fields = {**values, "architectures": architectures, "ordinal": int(number) if number else None}
        return made(cls, spelling=" ".join([first, *words]), kind=kind, **fields)

    def each(self) -> list[DeviceTarget]:
        """A target for each of the architectures."""
        if len(self.architectures) == 1:
            return [self]
        words = [word for word in self.spelling.split() if not word.startswith("-arch=")]
        return [DeviceTarget.parse(" ".join([*words, f"-arch={arch}"])) for arch in self.architectures]

    @property
    def backend(self) -> str:
        """The kind, and of an OpenCL device that it is a processor."""
        return f"{self.kind} {self.device}".strip()

    @property
    def max_dynamic_shared_memory(self) -> int:
        """Bytes of shared memory that a launch may ask for."""
        most = self.max_shared_memory_per_block
        return max(most, _DYNAMIC_SHARED.get(self.arch.removeprefix("sm_").rstrip("af"), most))

    @property
    def shuffle_width(self) -> int:
        """The threads of a warp where the language has shuffles."""
        return self.thread_warp_size if self.kind in _SHUFFLING_KINDS else 1

    @property
    def has_subgroups(self) -> bool:
        """True for WebGPU, whose text says what to do with subgroups and what without."""
        return self.kind == "webgpu"


def _architectures(listed: str, spec: str) -> tuple[str, ...]:
    """The architectures of a list, the oldest first. Raises `TargetError` for what is none."""
    found: dict[str, tuple[int, str]] = {}
    for name in listed.split(","):
        match = _ARCHITECTURE.fullmatch(name)
        if match is None:
            raise TargetError(f"target {spec!r}: {name!r} is no architecture of a GPU; write it as sm_80 or sm_90a")
        found[name] = int(match[1]), match[2]
    return tuple(sorted(found, key=lambda name: found[name]))
