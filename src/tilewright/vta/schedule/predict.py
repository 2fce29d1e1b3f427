"""The time of a convolution with a tiling: its program on the cycle simulator, without data."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tilewright.vta.codec import pack
from tilewright.vta.commands import Commands
from tilewright.vta.config import Config
from tilewright.vta.cycle.chip import simulate
from tilewright.vta.dram import Dram, largest_element
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.schedule.conv2d import Addresses, conv2d
from tilewright.vta.schedule.epilogue import Epilogue, Step
from tilewright.vta.schedule.geometry import Conv2D, Tiling
from tilewright.vta.usage import Usage

#: Bytes beside a layer's data: its micro-ops and instructions.
_PROGRAM = 4 << 20


@lru_cache(maxsize=64)
def isa_of(config: Config) -> Isa:
    """The instructions of a configuration."""
    return Isa(config)


def requantization(isa: Isa, dram: Dram, conv: Conv2D, shift: int = 8) -> Epilogue:
    """The usual epilogue of a layer, with a bias of zero: bias, shift, and bounds of a layer with ReLU."""
    blocks = conv.groups * conv.outputs
    zeros = np.zeros(blocks * isa.config.block, np.int32)
    steps = [Step("ADD", zeros), Step("SHR", shift), Step("MAX", 0), Step("MIN", 127)]
    return Epilogue.of(isa, dram, blocks, steps, zeros)


@lru_cache(maxsize=4096)
def usual_room(config: Config, conv: Conv2D) -> tuple[int, int]:
    """The accumulators of a thread that its biases have, and the blocks of outputs that a tile may have then."""
    isa, nowhere = isa_of(config), Dram(isa_of(config), 2 * conv.groups * conv.outputs * config.element_bytes("acc"))
    epilogue = requantization(isa, nowhere, conv)
    return epilogue.reserved, epilogue.most_outputs()


def usage_of(config: Config, hardware: Hardware, conv: Conv2D, tiling: Tiling) -> Usage:
    """The usage of the units. Raises `InputError` for more micro-ops than the chip holds."""
    isa = isa_of(config)
    dram = Dram(isa, dram_bytes(config, conv))
    epilogue = requantization(isa, dram, conv)
    at = Addresses(
        dram.reserve("INP", conv.images * conv.groups * conv.inputs * conv.height * conv.width),
        dram.reserve("WGT", conv.groups * conv.outputs * conv.inputs * conv.taps),
        dram.reserve("OUT", conv.sums),
    )
    commands = Commands(isa, dram)
    conv2d(commands, conv, at, epilogue, tiling)
    commands.end()
    program = commands.program()
    address = dram.put_bytes(pack(isa, program), largest_element(isa))
    return simulate(isa, program, dram.data, hardware, address).usage()


def dram_bytes(config: Config, conv: Conv2D) -> int:
    """Room for a layer's data and program."""
    data = conv.images * conv.groups * conv.inputs * conv.height * conv.width * config.element_bytes("inp")
    data += conv.groups * conv.outputs * conv.inputs * conv.taps * config.element_bytes("wgt")
    data += conv.sums * config.element_bytes("out") + 4 * conv.groups * conv.outputs * config.element_bytes("acc")
    return data + _PROGRAM
