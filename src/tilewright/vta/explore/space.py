"""The space of chips: configurations and memory ports, those that can be encoded, and how large each is.

The area is a model of what yosys counts (`vta/rtl/area.py`), fitted to small configurations; bits of memory are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import UserError
from tilewright.vta.config import EXTENDED, WIDE, Config
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa

#: Logarithms that are tried: channels of a tile, bytes of the memories, bytes of a beat.
_BLOCKS, _UOPS, _INPUTS, _WEIGHTS = range(3, 7), (13, 15), range(14, 18), range(16, 20)
_ACCUMULATORS, _PORTS = range(15, 19), range(3, 7)
_BURST_BYTES, _LONGEST = 4096, 256
#: Gates of everything, of a number of the tile, of a sum, of a product of bytes, of a byte of the port beyond eight.
_BASE, _LANE, _SUM, _PRODUCT, _PORT = 56_500, 7_090, 180, 585, 940
#: What versions add to the first two.
_VERSION_BASE, _VERSION_LANE = {1: 0, EXTENDED: 0, WIDE: 11_300}, {1: 0, EXTENDED: 1_100, WIDE: 1_100}
#: Bits of queues; gates that a bit of memory counts.
_QUEUE_BITS, _BIT = 44_000, 0.5


@dataclass(frozen=True)
class Candidate:
    """A chip of the space."""

    config: Config
    hardware: Hardware

    @property
    def area(self) -> float:
        """Modelled size in gates, memories among them."""
        return area_model(self.config, self.hardware)

    @property
    def name(self) -> str:
        """Configuration and port."""
        return f"{self.config.name}_p{self.hardware.port_bytes}"


def area_model(config: Config, hardware: Hardware) -> float:
    """Gates and bits of memory. Micro-ops and accumulators are there twice, for their second reader."""
    scale = (1 << config.log_inp_width - 3) * (1 << config.log_wgt_width - 3)
    lanes = config.batch * config.block
    gates = _BASE + _VERSION_BASE[config.isa_version] + lanes * (_LANE + _VERSION_LANE[config.isa_version])
    gates += config.macs_per_cycle * (_SUM + _PRODUCT * scale)
    gates += _PORT * (hardware.port_bytes - 8)
    outputs = config.element_bytes("out") << config.log_acc_depth
    total = (2 << config.log_uop_buff_size) + (2 << config.log_acc_buff_size) + outputs
    total += (1 << config.log_inp_buff_size) + (1 << config.log_wgt_buff_size)
    return gates + _BIT * (8 * total + _QUEUE_BITS)


def port_of(width: int) -> Hardware:
    """The hardware with a port of so many bytes and the longest bursts that AXI has for it."""
    return Hardware(port_bytes=width, burst=min(_LONGEST, _BURST_BYTES // width))


def candidates() -> Iterator[Candidate | UserError]:
    """The whole space; for what cannot be built or encoded the reason."""
    for block, uop, inp, wgt, acc, port in itertools.product(_BLOCKS, _UOPS, _INPUTS, _WEIGHTS, _ACCUMULATORS, _PORTS):
        for version in (1, EXTENDED, WIDE):
            try:
                config = Config(
                    log_block=block, log_uop_buff_size=uop, log_inp_buff_size=inp, log_wgt_buff_size=wgt,
                    log_acc_buff_size=acc, isa_version=version,
                )  # fmt: skip
                Isa(config)
            except UserError as error:
                yield error
                continue
            yield Candidate(config, port_of(1 << port))
