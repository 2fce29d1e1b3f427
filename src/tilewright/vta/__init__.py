"""VTA, an open accelerator for deep learning: configuration, instructions, checker and functional simulator.

    isa = Isa(Config())
    program = assemble(isa, TEXT)
    dram = Dram(isa, 1 << 16)
    Simulator(isa, dram).run(program)

docs/vta.md has the table of instructions and whole programs.
"""

from tilewright.vta.check import check_program
from tilewright.vta.codec import (
    Instruction,
    assemble,
    decode,
    decode_uop,
    disassemble,
    encode,
    listing,
    make,
    make_uop,
    pack,
    unpack,
)  # fmt: skip
from tilewright.vta.commands import Commands
from tilewright.vta.config import Config
from tilewright.vta.dram import Dram
from tilewright.vta.driver import DRIVERS, Driver, open_driver
from tilewright.vta.functional import Simulator
from tilewright.vta.isa import Isa
from tilewright.vta.network import Network, Program, Session

__all__ = [
    "DRIVERS", "Commands", "Config", "Dram", "Driver", "Instruction", "Isa", "Network", "Program",
    "Session", "Simulator",
    "assemble", "check_program", "decode", "decode_uop", "disassemble", "encode", "listing", "make", "make_uop",
    "open_driver", "pack", "unpack",
]  # fmt: skip
