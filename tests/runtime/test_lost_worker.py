"""Work of several workers goes on, with the same bits, when the system has stopped all of them but the caller."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000  # waitpid: threads too

#: Runs each case, prints the threads that were made for it, and runs it again when it reads a line, and once more.
_CASES = """
import os, sys
import numpy as np
import tilewright as tw
import tilewright.runtime.vm.loop as loop
from tests.driver.vm.test_loops import loop_of
from tests.driver.vm.test_source import call
from tilewright import te, tir
from tilewright.backend import build

loop.worth_sharing = lambda segment: True
SIZE = 1 << 16
x = np.random.default_rng(0).standard_normal(SIZE, dtype=np.float32)

def kernel(meets):
    a = te.placeholder((SIZE,), name="a")
    b = te.compute((SIZE,), lambda i: tir.exp(a(i)), name="b")
    c = te.compute((SIZE,), lambda i: b(i) + b(SIZE - 1 - i), name="c")
    s = te.create_schedule(c.op)
    for stage in (b, c) if meets else (c,):
        s[stage].parallel(s[stage].op.axis[0])
    if not meets:
        s[b].compute_inline()
    function = build(te.lower(s, [a, c], name="f"), "cpu", threads=3)["f"]
    assert function.info.meets == meets and function.threads == 3
    y = np.empty_like(x)
    def run():
        y[:] = 0
        function(x, y)
        return y.tobytes()
    return run

def turns(machine):
    inputs = {"start": -np.abs(x), "turns": np.array(6)}
    return lambda: b"".join(np.asarray(part).tobytes() for part in machine.run(inputs))

def library(machine, path):
    import ctypes
    machine.export_library(path, name="six")
    code = ctypes.CDLL(path)
    outputs = [np.empty(SIZE, np.float32), np.empty(SIZE, np.float32)]
    def run():
        assert call(code, "six", [-np.abs(x), np.array(6)], outputs, 3) == "success"
        return b"".join(part.tobytes() for part in outputs)
    return run

machine = tw.compile(loop_of(False, length=SIZE), cache=False, threads=3)
cases = {"shared": kernel(False), "meeting": kernel(True), "loop": turns(machine)}
if len(sys.argv) > 1:
    cases["library"] = library(machine, sys.argv[1])
before = set(os.listdir("/proc/self/task"))
first = {name: run() for name, run in cases.items()}
print(*sorted(set(os.listdir("/proc/self/task")) - before), flush=True)
for number in (30, 5):
    input()
    for name, run in cases.items():
        for _ in range(number):
            assert run() == first[name], name
        print(name, end=" ", flush=True)
    print(flush=True)
"""


@contextmanager
def stopped(threads: list[int]) -> Iterator[None]:
    """These threads of a child do not run within the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    held = []
    try:
        for thread in threads:
            if libc.ptrace(_SEIZE, thread, None, None):
                pytest.skip(f"may not stop a thread of a child here ({os.strerror(ctypes.get_errno())})")
            held.append(thread)
            libc.ptrace(_INTERRUPT, thread, None, None)
            os.waitpid(thread, _WALL)
        yield
    finally:
        for thread in held:
            if libc.ptrace(_DETACH, thread, None, None):  # it was killed, and stays until this process asks for it
                os.waitpid(thread, _WALL)


@pytest.mark.skipif(sys.platform != "linux", reason="stops threads as Linux does it")
def test_kernels_and_loops_go_on_without_their_workers(tmp_path: Path) -> None:
    from tilewright.errors import EnvironmentError_
    from tilewright.runtime.export import find_linker

    try:
        find_linker()
        positions = [str(tmp_path / "libsix.so")]
    except EnvironmentError_:
        positions = []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "8"}
    child = subprocess.Popen(
        [sys.executable, "-c", _CASES, *positions], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip
    with child:
        assert child.stdin is not None and child.stdout is not None
        try:
            threads = [int(word) for word in child.stdout.readline().split()]
            assert len(threads) == 2 * (1 + len(positions))  # of this process's pool, and of the library's
            with stopped(threads):
                done = _answer(child, 120)
            assert done.split() == ["shared", "meeting", "loop", *["library"] * len(positions)]
            again = _answer(child, 120)
            assert again.split() == done.split()
            child.stdin.close()
            assert child.wait(60) == 0
        finally:
            child.kill()


def _answer(child: subprocess.Popen[str], seconds: float) -> str:
    """The line that the child prints for one that it is given; it is killed when it takes longer than that."""
    assert child.stdin is not None and child.stdout is not None
    watch = threading.Timer(seconds, child.kill)
    watch.start()
    child.stdin.write("\n")
    child.stdin.flush()
    line = child.stdout.readline()
    watch.cancel()
    return line
