"""The time of a layer on a chip: its most promising tilings on the cycle simulator, the best of them kept."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tilewright.errors import UserError
from tilewright.vta.config import Config
from tilewright.vta.cycle.chip import simulate
from tilewright.vta.dram import Dram
from tilewright.vta.explore.bounds import best_tilings
from tilewright.vta.explore.convs import Conv, Tiling, conv_stream
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa

#: Into how many parts the end of a tile is cut.
_PARTS = (1, 2, 3)


@dataclass(frozen=True)
class Tuned:
    """A layer's best tiling and its cycles."""

    conv: Conv
    tiling: Tiling
    cycles: int


def tune_layer(isa: Isa, hardware: Hardware, conv: Conv, trials: int) -> Tuned:
    """Simulate the `trials` best tilings by estimate, then the best with its end cut otherwise.

    Raises `UserError` where none fits.
    """
    tried = [_timed(isa, hardware, conv, tiling) for tiling in best_tilings(conv, isa.config, hardware, trials)]
    fitting = [tuned for tuned in tried if tuned is not None]
    if not fitting:
        raise UserError(f"no tile of {conv} fits into the memories of {isa.config.name}; take larger ones")
    best = min(fitting, key=lambda tuned: tuned.cycles)
    others = [dataclasses.replace(best.tiling, parts=parts) for parts in _PARTS if parts != best.tiling.parts]
    cut = [_timed(isa, hardware, conv, tiling) for tiling in others]
    return min([best, *(tuned for tuned in cut if tuned is not None)], key=lambda tuned: tuned.cycles)


def _timed(isa: Isa, hardware: Hardware, conv: Conv, tiling: Tiling) -> Tuned | None:
    """None for more micro-ops than there is room for: the estimate does not see all of them."""
    try:
        return Tuned(conv, tiling, cycles_of(isa, hardware, conv, tiling))
    except UserError:
        return None


def cycles_of(isa: Isa, hardware: Hardware, conv: Conv, tiling: Tiling) -> int:
    """A layer's cycles with a tiling. Only micro-ops need to be in DRAM for that, no data."""
    dram = Dram(isa, dram_bytes(isa.config, conv))
    stream = conv_stream(isa, dram, conv, tiling)
    return simulate(isa, stream.program, dram.data, hardware, stream.address).usage().cycles


def dram_bytes(config: Config, conv: Conv) -> int:
    """Room for a layer's data and program."""
    inner, outer = -(-conv.channels // config.block), -(-conv.filters // config.block)
    data = inner * conv.height * conv.width * config.element_bytes("inp")
    data += inner * outer * conv.kernel**2 * config.element_bytes("wgt")
    data += outer * (conv.out_height * conv.out_width * config.element_bytes("out") + config.element_bytes("acc"))
    return data + (4 << 20)
