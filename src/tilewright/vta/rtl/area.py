"""The area of a chip: cells and memories by yosys, and from them one figure.

yosys flattens the Verilog and counts its operators by width, multiplexers by bit, memories apart. Gates are what an
operator of that width takes in two-input gates, about; a bit of memory counts half a gate. That is a measure to
compare configurations by, not square millimetres: yosys knows neither process nor timing.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.vta.config import Config
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.rtl.verilog import TOP, verilog_of

#: Gates by operator, as a function of its width in bits.
_GATES = {
    "mul": lambda w: 1.5 * w * w, "add": lambda w: 6 * w, "sub": lambda w: 6 * w, "neg": lambda w: 4 * w,
    "mux": lambda w: 3 * w, "pmux": lambda w: 9 * w, "eq": lambda w: 2 * w, "ne": lambda w: 2 * w,
    "lt": lambda w: 4 * w, "le": lambda w: 4 * w, "gt": lambda w: 4 * w, "ge": lambda w: 4 * w,
    "shl": lambda w: 3 * w * math.log2(max(w, 2)), "shr": lambda w: 3 * w * math.log2(max(w, 2)),
    "sshr": lambda w: 3 * w * math.log2(max(w, 2)), "shift": lambda w: 3 * w * math.log2(max(w, 2)),
    "shiftx": lambda w: 3 * w * math.log2(max(w, 2)),
}  # fmt: skip
_FLIP_FLOP, _OTHER = 6, 1
GATES_PER_MEMORY_BIT = 0.5


@dataclass(frozen=True)
class Area:
    """Cells by type and width (`$add_32`), gates of logic, bits of memory with all copies that ports need."""

    cells: dict[str, int]
    gates: float
    memory_bits: int

    @property
    def total(self) -> float:
        """Gates, memory among them."""
        return self.gates + GATES_PER_MEMORY_BIT * self.memory_bits


def measure_area(config: Config, hardware: Hardware | None = None) -> Area:
    """Let yosys count. `EnvironmentError_` where it is not installed."""
    tool = shutil.which("yosys")
    if tool is None:
        raise EnvironmentError_("counting cells needs yosys, which is not installed: apt-get install yosys")
    with tempfile.TemporaryDirectory() as folder:
        source, found = Path(folder) / f"{TOP}.v", Path(folder) / "cells.txt"
        source.write_text(verilog_of(isa := Isa(config), hardware))
        steps = (
            f"read_verilog {source}", f"hierarchy -top {TOP}", "proc", "flatten", "opt -fast", "wreduce",
            "simplemap t:$mux", "opt_expr -mux_undef", "opt_clean",
            f"tee -q -o {found} stat -width",
        )  # fmt: skip
        done = subprocess.run([tool, "-q", "-p", "; ".join(steps)], capture_output=True, text=True)
        if done.returncode:
            raise InternalError(f"yosys refused the RTL:\n{done.stderr[-2000:]}")
        return _counted(found.read_text(), isa)


def _counted(text: str, isa: Isa) -> Area:
    """The report of `stat -width`, added up."""
    cells = {name: int(count) for name, count in re.findall(r"^ +\$(\w+?) +(\d+)$", text, re.MULTILINE)}
    bits = re.search(r"Number of memory bits: +(\d+)", text)
    assert bits is not None
    gates = 0.0
    for name, count in cells.items():
        if name.startswith("_"):
            gates += count * (_GATES["mux"](1) if name == "_MUX_" else _OTHER)
        kind, _, width = name.rpartition("_")
        if not width.isdecimal() or kind.startswith("mem"):
            continue
        flip_flop = "dff" in kind
        each = _GATES[kind](int(width)) if kind in _GATES else (_FLIP_FLOP if flip_flop else _OTHER) * int(width)
        gates += count * each
    # GEMM and ALU read micro-ops in the same cycle: these are there twice.
    return Area(cells, gates, int(bits[1]) + isa.memories["UOP"].depth * isa.uop.bits)
