"""Products of few bits as a workload: the tiles that fit the registers, and what each costs.

Vector operations are counted: two of a lookup (and its addition), three of a popcount where the processor has an
instruction for it. What the pixels of a tile share, weights and their nibbles, is divided among them; each chunk is
widened, each result joined from its planes, and the operands of a band of rows are made before it, those of the rows
that windows share once for each band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import te
from tilewright.target import Target
from tilewright.topi.bitserial_form import BYTE, LOOKUP, NIBBLE, POPCOUNT, WORD
from tilewright.topi.nn.bitserial import digits_of
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import shape_of

#: Pixels of a register tile, at most.
_TILE_PIXELS = 16

#: Operations that bring a vector of 32-bit sums of one plane to the result: taken out, widened, shifted, added, stored.
_JOINING = 4.0

#: Operations that make a vector of tables (four lookups, three additions, a store), one of codes, a word of a plane.
_TABLES, _CODES, _PLANE = 8.0, 4.0, 4.0

#: Operations that add up the data of a pixel, beside one for each of its vectors.
_PIXEL = 8.0


@dataclass(frozen=True)
class BitserialWorkload:
    """[batch, height, width] results of `panels` of `lanes` channels, summed over a window of `channels`.

    Images have `columns` with what is around them. A chunk has so many `steps` of eight channels, and a vector of bytes
    `parts` vectors of sums. `corrected` says that sums of the data are needed too; rows of a matrix are one row.
    """

    method: str
    batch: int
    height: int
    width: int
    panels: int
    lanes: int
    window: tuple[int, int]
    strides: tuple[int, int]
    columns: int
    channels: int
    data_bits: int
    weight_bits: int
    steps: int = 1
    parts: int = 1
    corrected: bool = False

    @property
    def planes(self) -> int:
        """Sums that are kept apart for each pixel."""
        return self.weight_bits * (self.digits if self.method == LOOKUP else self.data_bits)

    @property
    def digits(self) -> int:
        """Digits of the data that have tables of their own."""
        return digits_of(self.data_bits, self.method)

    @property
    def words(self) -> int:
        """Steps of all channels of the window: words, or bytes."""
        return math.prod(self.window) * -(-self.channels // self.word)

    @property
    def word(self) -> int:
        """Channels of a step."""
        return WORD if self.method == POPCOUNT else BYTE

    @property
    def pixel_bytes(self) -> float:
        """Bytes of a pixel of the data as planes or tables."""
        return self.channels * (4.0 * self.digits if self.method == LOOKUP else self.data_bits / BYTE)


def bitserial_workload(product: te.Tensor, out: te.Tensor) -> BitserialWorkload:
    """The workload of `product` (tag bitserial_conv2d)."""
    batch, height, width, panels, planes, *lanes = shape_of(product)
    facts = dict(product.op.attrs)
    planes //= digits_of(facts["data_bits"], LOOKUP) if facts["method"] == LOOKUP else facts["data_bits"]
    parts = lanes[0] if len(lanes) > 1 else 1
    sizes = (batch, height, width, panels, math.prod(lanes))
    return BitserialWorkload(facts.pop("method"), *sizes, weight_bits=planes, parts=parts, **facts)


def bitserial_space(workload: BitserialWorkload, target: Target) -> ConfigSpace:
    """Pixels of the register tile, of which a single one may always be tried; rows of a band."""
    most = min(workload.width, _TILE_PIXELS)
    fitting = [n for n in range(most, 1, -1) if _registers(workload, n, target) <= target.vector_registers]
    space = ConfigSpace()
    space.define_knob("tile_columns", [*fitting, 1])
    space.define_split("band_rows", workload.height)
    return space


def vectors_of(workload: BitserialWorkload, target: Target) -> int:
    """Registers that a panel of bytes, or of words, takes."""
    return max(1, workload.lanes // target.machine.lanes(workload.word))


def _registers(workload: BitserialWorkload, pixels: int, target: Target) -> int:
    """The sums and, of bytes, those of the chunk; a vector of weights, its nibbles, a mask, what is looked up."""
    wide = 1 if workload.method == POPCOUNT else 1 + workload.parts
    return pixels * workload.planes * wide * vectors_of(workload, target) + 5


def popcount_operations(target: Target, bits: int) -> float:
    """Vector operations of the popcounts of a vector of words or bytes of `bits` bits, as LLVM spells them."""
    if target.supports("avx512vpopcntdq" if bits == WORD else "avx512bitalg"):
        return 1.0
    if target.architecture == "aarch64":
        return 1.0 if bits == BYTE else 3.0
    return (6.0 if bits == BYTE else 10.0) if target.supports("ssse3") else 12.0


def bitserial_cost(workload: BitserialWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """The cost for the busiest worker."""
    machine, pixels = target.machine, min(config["tile_columns"], workload.width)
    rows = min(config["band_rows"], workload.height)
    dense = workload.height == 1
    units = workload.batch * (workload.panels if dense else -(-workload.height // rows))
    workers = min(machine.cores, units)
    share = -(-units // workers) / units
    arithmetic, ports = _tile(workload, pixels, target)
    tiles = share * workload.batch * workload.height * -(-workload.width // pixels) * workload.panels
    bands = (1.0 if dense else share) * workload.batch * -(-workload.height // rows)
    read_rows = (rows - 1) * workload.strides[0] + workload.window[0]
    made = bands * read_rows * workload.columns * _pixel(workload, target)
    traffic = _traffic(workload, rows, read_rows, bands, share, target)
    return traffic.cost(
        (tiles * arithmetic + made) / machine.fma_per_cycle,
        tiles * ports / machine.vector_loads,
        fixed=tiles * machine.tile_start + machine.kernel_start + (machine.barrier if workers > 1 else 0.0),
    )


def _tile(workload: BitserialWorkload, pixels: int, target: Target) -> tuple[float, float]:
    """Vector operations and loads of a register tile."""
    vectors, planes, words = vectors_of(workload, target), workload.planes, workload.words
    joined = pixels * planes * workload.lanes / target.machine.lanes() * _JOINING
    if workload.method == LOOKUP:
        each, shared, loads = 4.0, 3.0 * workload.weight_bits, 2.0 * vectors * workload.digits
    else:
        broadcast = 1.0 if workload.word == BYTE and target.architecture == "x86_64" else 0.0
        each, shared = 2.0 + popcount_operations(target, workload.word), 0.0
        each, loads = each + broadcast / (workload.weight_bits * vectors), float(workload.data_bits)
    if workload.method != POPCOUNT:  # taken apart, added
        each += (2 * workload.parts - 1 + workload.parts) / workload.steps / 1.0
    ports = words * (pixels * loads + vectors * workload.weight_bits)
    return words * vectors * (pixels * planes * each + shared) + joined, ports


def _pixel(workload: BitserialWorkload, target: Target) -> float:
    """Vector operations that make the operand of a pixel, and the sum of its data."""
    lanes = target.machine.lanes(BYTE)
    vectors = -(-workload.channels // lanes)
    correction = _PIXEL + vectors if workload.corrected else 0.0
    if workload.method == LOOKUP:
        return correction + workload.digits * (vectors * _CODES + _TABLES * workload.channels * NIBBLE / lanes)
    word = min(lanes, workload.word)
    return correction + vectors * _CODES + _PLANE * workload.data_bits * workload.channels / word


def _traffic(
    workload: BitserialWorkload, rows: int, read_rows: int, bands: float, share: float, target: Target
) -> Traffic:
    """The operand of a band is written, and read once for each row and panel; weights pass by once for each band."""
    traffic = Traffic(target.machine, 1)
    row = workload.columns * workload.pixel_bytes
    band, window = read_rows * row, workload.window[0] * row
    weights = workload.panels * workload.words * workload.weight_bits * workload.lanes * workload.word / BYTE
    results = workload.batch * workload.height * workload.width * workload.panels * workload.lanes * 4.0
    traffic.add(bands * band * target.machine.write_factor, band)
    traffic.add(bands * rows * workload.panels * window, band)
    traffic.add(bands * weights, weights + band)
    traffic.add(share * results * target.machine.write_factor, results)
    return traffic
