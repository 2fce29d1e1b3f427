"""A model as a static program without a C library under seccomp strict (Linux, x86-64), in a process of its own.

Once the program has its memory it can make three system calls: read, write and exit; at any other the kernel ends it.
Blocks of memory end at pages that nobody may touch, and functions with arrays on the stack check a canary.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from tilewright.codegen.source.compile_c import find_compiler
from tilewright.enclave.build import OPTIONS, EnclaveSource, allowed_symbols, compile_with
from tilewright.enclave.model import EnclaveModel
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.runtime.memory import Array
from tilewright.runtime.processor import host_architecture
from tilewright.runtime.types import Value

_CANARIES = ("-fstack-protector-strong", "-mstack-protector-guard=global")
_CANARY_SYMBOLS = ("__stack_chk_fail", "__stack_chk_guard")
_ANSWER = struct.Struct("<II")
#: A measurement takes this long beside what its inputs and outputs take, but no more runs.
_LEAST_SECONDS, _MOST_RUNS = 2e-3, 1000
#: Exit statuses of static.c.
_STATUSES = {
    2: "it got no memory",
    3: "the kernel has no seccomp, or refuses it to this process",
    4: "its inputs ended early",
    5: "a function wrote past the end of an array on its stack (the canary differs); please report it with the model",
}
_SIGNALS = {
    signal.SIGKILL: "it made a system call other than read, write and exit, or memory ran out",
    signal.SIGSEGV: "it touched a page outside of its memory; please report it with the model",
    signal.SIGILL: "this processor lacks an instruction that it was compiled with",
}


class SeccompModel(EnclaveModel):
    """A model in a process that may read, write and exit; `program` is the static executable, as bytes."""

    def __init__(self, source: EnclaveSource, optimize: str = "-O2") -> None:
        """Compile and start the program.

        Raises `UnsupportedError` on other machines, `EnvironmentError_` without a C compiler, `InputError` for C source
        that calls a library.
        """
        super().__init__(source)
        self.program = build_static(source, optimize)
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-enclave-")
        path = Path(self._folder.name) / "program"
        path.write_bytes(self.program)
        path.chmod(0o700)
        self._process = _start(path, source.weights)
        self._finalizer = weakref.finalize(self, _end, self._process, self._folder)

    @property
    def pid(self) -> int:
        """The number of the program's process."""
        return self._process.pid

    def close(self) -> None:
        """End the process."""
        self._finalizer()

    def _answer(self, arrays: Sequence[Array], runs: int) -> list[Array]:
        to, back = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        try:
            to.write(b"".join([struct.pack("<I", runs), *(array.tobytes() for array in arrays)]))
            to.flush()
            code, intact = _ANSWER.unpack(self._read(back, _ANSWER.size))
            results = [
                np.frombuffer(self._read(back, spec.nbytes), spec.numpy).reshape(spec.static_shape).copy()
                for spec in self.outputs
            ]
        except BrokenPipeError:
            self._read(back, 1)
            raise
        if not intact:
            raise EnvironmentError_("the model wrote outside of its memory; please report it with the model")
        self._check_code(code)
        return results

    def _read(self, back: IO[bytes], count: int) -> bytes:
        """`count` bytes of the program's answer. Raises `EnvironmentError_` saying what ended it."""
        data = back.read(count)
        if len(data) < count:
            status = self._process.wait()
            named = signal.Signals(-status).name if status < 0 else f"status {status}"
            why = _SIGNALS.get(signal.Signals(-status), "") if status < 0 else _STATUSES.get(status, "")
            raise EnvironmentError_(f"the program under seccomp ended ({named}): {why}")
        return data

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of a run, `repeat` times: many against one, so that passing inputs and outputs does not count."""
        arrays = self._bound(inputs)
        self._answer(arrays, max(warmup, 1))
        one = min(self._seconds(arrays, 1) for _ in range(3))
        runs = min(max(1, int(_LEAST_SECONDS / one)), _MOST_RUNS)
        return [max(self._seconds(arrays, 1 + runs) - self._seconds(arrays, 1), 0.0) / runs for _ in range(repeat)]

    def _seconds(self, arrays: Sequence[Array], runs: int) -> float:
        start = time.perf_counter()
        self._answer(arrays, runs)
        return time.perf_counter() - start


def build_static(source: EnclaveSource, optimize: str = "-O2") -> bytes:
    """The static executable of a model, without a C library."""
    if host_architecture() != "x86_64":
        raise UnsupportedError("the program under seccomp is written for Linux on x86-64; take --enclave wasm")
    compiler, is_zig = find_compiler()
    machine = "-mcpu=native" if is_zig else "-march=native"
    common = [*compiler, *OPTIONS, optimize, machine, *_CANARIES, "-fno-pic", "-fno-pie"]
    with tempfile.TemporaryDirectory(prefix="tilewright-enclave-") as folder:
        work = Path(folder)
        source.write_to(work, "static.c")
        compile_with([*common, "-c", "model.c", "-o", "model.o"], work, "compiling the model for an enclave")
        allowed_symbols((work / "model.o").read_bytes(), _CANARY_SYMBOLS)
        link = ["-nostdlib", "-static", "-no-pie", "-Wl,-z,noexecstack", "-Wl,--build-id=none"]
        command = [*common, *link, "static.c", "model.o", "-o", "program"]
        compile_with(command, work, "linking the model for an enclave")
        return (work / "program").read_bytes()


def _start(path: Path, weights: Path | None) -> subprocess.Popen[bytes]:
    """The program, with the descriptor of its weights as its argument."""
    if weights is None:
        return subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with weights.open("rb") as file:
        command, kept = [str(path), str(file.fileno())], (file.fileno(),)
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=kept)


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    folder.cleanup()
