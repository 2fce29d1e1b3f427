"""The RTL run by Verilator: a chip as a shared library, built once for each configuration, behind the driver interface.

It needs Verilator and a C++ compiler; without them one error says what to install.
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

import amaranth
import numpy as np

from tilewright.errors import EnvironmentError_, InternalError, ProgramError
from tilewright.support.cache import digest, open_cache
from tilewright.vta.config import Config
from tilewright.vta.dram import Dram
from tilewright.vta.driver import Driver
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.registers import REGISTERS
from tilewright.vta.rtl.verilog import TOP, verilog_of
from tilewright.vta.usage import ACTIVITIES, Slice, Usage

_BENCH = Path(__file__).with_name("testbench.cpp")
#: Sources of Verilator's own that a model needs.
_SUPPORT = ("verilated.cpp", "verilated_threads.cpp")
#: Cycles without any change after which a program is taken to wait for ever.
_PATIENCE = 20_000
_DONE, _STUCK = 0, 1
_TRACK = {
    "load moves": "load", "compute moves": "compute", "GEMM": "GEMM core", "ALU": "ALU core", "store moves": "store",
}  # fmt: skip


class VerilatedDriver(Driver):
    """The chip as RTL. `usage` is what the units did in the last run; `traced` keeps a trace of it as well.

    The memories keep what they hold from run to run. DRAM begins at address 0 of all memories.
    """

    def __init__(self, isa: Isa, dram: Dram, hardware: Hardware | None = None, traced: bool = False) -> None:
        super().__init__(isa, dram)
        self.hardware, self.traced = hardware or Hardware(), traced
        self.usage = Usage(0, {})
        self._library = library(isa.config, self.hardware)
        self._chip = ctypes.c_void_p(self._library.vta_make())

    def __del__(self) -> None:
        if hasattr(self, "_chip"):
            self._library.vta_free(self._chip)

    def run(self, address: int, count: int) -> Counter[str]:
        """Write the registers, launch, and turn the clock until finish.

        The chip checks nothing: a program that reaches beyond DRAM, or waits for ever, is refused when it does.
        """
        self.fetch(address, count)
        for name, value in (("instructions", address), ("count", count), ("control", 1)):
            self._library.vta_write_register(self._chip, REGISTERS[name], value)
        busy = np.zeros(len(ACTIVITIES), np.uint64)
        data = self.dram.data
        outcome = self._library.vta_run(
            self._chip, data.ctypes.data, data.size, self.hardware.latency, _PATIENCE, int(self.traced),
            busy.ctypes.data,
        )  # fmt: skip
        if outcome != _DONE:
            self._refuse(outcome)
        cycles = self._library.vta_read_register(self._chip, REGISTERS["cycles"])
        self.usage = Usage(cycles, dict(zip(ACTIVITIES, busy.tolist())), self._slices())
        new = Counter({"cycles": cycles, "GEMM steps": int(busy[4]), "ALU steps": int(busy[5])})
        self.counters += new
        return new

    def _refuse(self, outcome: int) -> None:
        self._library.vta_free(self._chip)
        self._chip = ctypes.c_void_p(self._library.vta_make())
        if outcome == _STUCK:
            raise ProgramError(
                f"the chip has done nothing for {_PATIENCE} cycles: instructions wait for tokens that do not come, or "
                f"a queue of {self.hardware.queue} instructions is full of those that wait for one behind it",
                "deadlock",
            )
        verb = "reads" if outcome == _STUCK + 1 else "writes"
        raise ProgramError(f"the chip {verb} beyond the end of DRAM; `check_program` says where", "dram")

    def _slices(self) -> list[Slice]:
        """The trace: where a status bit was set, from its rise to its fall."""
        found: list[Slice] = []
        changes = ctypes.POINTER(ctypes.c_uint64)()
        number = self._library.vta_trace(self._chip, ctypes.byref(changes)) if self.traced else 0
        since: dict[int, int] = {}
        for word in [*(changes[i] for i in range(number)), (self.usage.cycles or 1 << 40) << len(ACTIVITIES)]:
            cycle, status = word >> len(ACTIVITIES), word & (1 << len(ACTIVITIES)) - 1
            for bit, name in enumerate(ACTIVITIES):
                if status >> bit & 1:
                    since.setdefault(bit, cycle)
                elif bit in since and name in _TRACK:
                    found.append(Slice(_TRACK[name], name, since.pop(bit), cycle))
        return found


@lru_cache(maxsize=8)
def library(config: Config, hardware: Hardware) -> ctypes.CDLL:
    """The chip and its test bench as a shared library, from the cache where it was built before."""
    verilator, compiler = _tools()
    cache, key = open_cache(), _key(config, hardware, verilator)
    path = cache.find("vta-rtl", key)
    if path is not None:
        return _opened(path)
    with tempfile.TemporaryDirectory() as folder:
        built = _build(Path(folder), verilog_of(Isa(config), hardware), hardware, verilator, compiler)
        return _opened(cache.put_file("vta-rtl", key, lambda target: _copy(built, target)) or built)


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _key(config: Config, hardware: Hardware, verilator: str) -> str:
    """Of all that a library is made from: the Verilog takes longer to make than this."""
    version = subprocess.run([verilator, "--version"], capture_output=True, text=True, check=True).stdout
    sources = [*sorted(_BENCH.parent.iterdir()), _BENCH.parents[1] / "isa.py", _BENCH.parents[1] / "config.py"]
    texts = [path.read_bytes() for path in sources if path.is_file()]
    return digest(repr(config), repr(hardware), version, amaranth.__version__, *texts)


def _opened(path: Path) -> ctypes.CDLL:
    found = ctypes.CDLL(str(path))
    pointer, wide, word = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
    for name, result, arguments in (
        ("vta_make", pointer, []),
        ("vta_free", None, [pointer]),
        ("vta_write_register", None, [pointer, word, word]),
        ("vta_read_register", word, [pointer, word]),
        ("vta_run", ctypes.c_int, [pointer, pointer, wide, wide, wide, ctypes.c_int, pointer]),
        ("vta_trace", wide, [pointer, pointer]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def _tools() -> tuple[str, str]:
    """Verilator and a C++ compiler. `EnvironmentError_` says what is missing."""
    verilator = shutil.which("verilator")
    if verilator is None:
        raise EnvironmentError_("running RTL needs Verilator, which is not installed: apt-get install verilator")
    for name in ("g++", "clang++", "c++"):
        if compiler := shutil.which(name):
            return verilator, compiler
    raise EnvironmentError_("running RTL needs a C++ compiler, and none is installed: apt-get install g++")


def _build(folder: Path, text: str, hardware: Hardware, verilator: str, compiler: str) -> Path:
    """Verilog to C++ to a shared library in `folder`."""
    (folder / f"{TOP}.v").write_text(text)
    _run(
        [
            verilator,
            "--cc",
            "--Mdir",
            str(folder),
            "--prefix",
            "Vvta",
            "--top-module",
            TOP,
            "-O3",
            "--noassert",
            "-Wno-fatal",
            "-Wno-lint",
            "--x-assign",
            "0",
            "--x-initial",
            "0",
            "--output-split",
            "20000",
            str(folder / f"{TOP}.v"),
        ]
    )
    lines = subprocess.run([verilator, "-V"], capture_output=True, text=True, check=True).stdout.splitlines()
    roots = [line.partition("=")[2].strip() for line in lines if line.strip().startswith("VERILATOR_ROOT")]
    include = next(Path(root) / "include" for root in roots if root and (Path(root) / "include").is_dir())
    sources = [*folder.glob("*.cpp"), _BENCH, *(include / name for name in _SUPPORT if (include / name).exists())]
    common = [compiler, "-std=c++17", "-fPIC", "-w", f"-I{include}", f"-I{include}/vltstd", f"-I{folder}"]
    objects = []
    for number, source in enumerate(sources):
        # What runs once is not worth the compiler's time.
        level = "-O0" if "__Slow" in source.name else "-O2"
        objects.append(str(folder / f"{number}.o"))
        _run([*common, level, f"-DPORT_BYTES={hardware.port_bytes}", "-c", str(source), "-o", objects[-1]])
    built = folder / "vta.so"
    _run([compiler, "-shared", "-o", str(built), *objects, "-lpthread"])
    return built


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = "\n".join(itertools.islice((done.stderr or done.stdout).splitlines(), 10))
        raise InternalError(f"{Path(command[0]).name} refused the RTL:\n{last}")
