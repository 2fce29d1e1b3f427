"""Verilog of a chip, made by Amaranth."""

from __future__ import annotations

import re

from amaranth.back import verilog

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.rtl.chip import Chip

#: Name of the module at the top.
TOP = "vta"

#: What fills memories with zeros before the first cycle: no chip has that, and simulators do it by themselves.
_FILLED = re.compile(r"^  initial begin\n(?:    \S+\[\d+\] = [^;\n]+;\n)+  end\n", re.MULTILINE)


def verilog_of(isa: Isa, hardware: Hardware | None = None) -> str:
    """The chip of a configuration as Verilog, its top module `vta`; clock `clk`, reset `rst`."""
    chip = Chip(isa, hardware or Hardware())
    text = verilog.convert(chip, name=TOP, ports=chip.ports(), emit_src=False, strip_internal_attrs=True)
    return _FILLED.sub("", text)
