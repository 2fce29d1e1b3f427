"""The choice of a convolution's tiling: all that fit ranked by an estimate, the most promising simulated.

All tilings are looked at in one go, as arrays. The bound is the roofline: GEMM, ALU, loads and stores each for
themselves. The estimate follows the pipeline: what a tile takes with its loads hidden or not, what nothing can hide
before the first product and behind the last, and what an instruction costs beside its work.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np

from tilewright.errors import InputError, UnsupportedError
from tilewright.support.cache import digest, open_cache
from tilewright.support.fingerprint import compiler_fingerprint
from tilewright.vta.config import EXTENDED, Config
from tilewright.vta.hardware import Hardware
from tilewright.vta.schedule.conv2d import gemm_plan, most_uops
from tilewright.vta.schedule.geometry import Conv2D, Tiling
from tilewright.vta.schedule.predict import isa_of, usage_of, usual_room

#: Sizes that are tried grow at least by this factor.
_GROWTH = 1.2
#: Columns of a tile that are few have rows of so many at least.
_LEAST_COLUMNS = 4
_KEEPS = ("weights", "image", "")
#: Cycles that an instruction costs its unit beside its work; from one tile's last product to the next one's first.
_PER_INSTRUCTION, _PER_TILE = 6, 16
_PARTS = Tiling.parts
#: A tiling this close to the bound, or to the least estimate of all, is not worth improving on.
_NEAR_BOUND, _NEAR_ESTIMATE = 1.03, 1.02
#: Groups and images that are simulated of a layer that has more: they are all alike.
_ALIKE = 4
#: Tilings that are simulated.
TRIALS = 5


@dataclass(frozen=True)
class Tilings:
    """Tilings of a convolution as arrays; what of the memories they need, and what they load, in elements."""

    tilings: list[Tiling]
    needs: dict[str, np.ndarray]
    tiles: np.ndarray
    slabs: np.ndarray
    steps: np.ndarray
    image: np.ndarray
    weights: np.ndarray
    keeps_image: np.ndarray
    keeps_weights: np.ndarray
    sums: np.ndarray
    outputs: np.ndarray
    loads: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """Least cycles by the roofline, and expected ones, of each of `tilings_of`; infinite where one does not fit."""

    bound: np.ndarray
    cycles: np.ndarray


# ------------------------------------------------------------------------------------------------------- tilings
@lru_cache(maxsize=1024)
def tilings_of(conv: Conv2D, threads: int) -> Tilings:
    """The tilings that are tried."""
    columns = [c for c in _halves(conv.out_width) if c >= _LEAST_COLUMNS or c in (conv.out_width, 1)]
    sizes = (_sizes(conv.out_height), columns, _sizes(conv.outputs), _halves(conv.inputs))
    found = [Tiling(*size, threads, keep) for size in itertools.product(*sizes) for keep in _KEEPS]
    r, w, o, i = (np.array([getattr(t, name) for t in found]) for name in ("rows", "columns", "outputs", "inputs"))
    keeps_image, keeps_weights = (np.array([t.keep == name for t in found]) for name in ("image", "weights"))
    image = np.array([conv.rows_of(t.rows) * conv.columns_of(t.columns) for t in found])
    weights = o * conv.taps
    positions = conv.images * -(-conv.out_height // r) * -(-conv.out_width // w)
    blocks = -(-conv.outputs // o)
    slabs = np.where(keeps_image, conv.groups * positions, np.where(keeps_weights, conv.groups * blocks, 0))
    kept = np.minimum(threads, slabs)
    needs = {
        "INP": image * np.where(keeps_image, conv.inputs * kept, i * threads),
        "WGT": weights * np.where(keeps_weights, conv.inputs * kept, i * threads),
        "ACC": o * r * w,
    }
    rows = np.where((conv.skips[1] > 1) & (w > 1), r, 1)
    tiles = conv.groups * positions * blocks
    return Tilings(
        found, needs, tiles, np.where(slabs > 0, slabs, tiles), -(-conv.inputs // i), image, weights, keeps_image,
        keeps_weights, o * r * w, o, conv.inputs * rows,
    )  # fmt: skip


def _sizes(size: int) -> list[int]:
    """Sizes of pieces to try: those that make equal pieces, rounded up, but not too many."""
    found: list[int] = []
    for piece in sorted({-(-size // pieces) for pieces in range(1, size + 1)}, reverse=True):
        if not found or piece * _GROWTH <= found[-1] or piece == 1:
            found.append(piece)
    return found


def _halves(size: int) -> list[int]:
    """The size, its half, and so on."""
    return sorted({-(-size // (1 << n)) for n in range(size.bit_length() + 1)}, reverse=True)


# ------------------------------------------------------------------------------------------------------ estimates
def passes_of(config: Config) -> int:
    """Steps of ALU on an output of a layer with bias, shift and two bounds: where sums begin with the bias."""
    return 3 if config.isa_version >= EXTENDED else 4


def estimates(
    config: Config, hardware: Hardware, conv: Conv2D, threads: int = 2, reserved: int = 0, most_outputs: int = 1 << 16
) -> Estimate:
    """Of each of `tilings_of`; `reserved` accumulators of a thread are the epilogue's."""
    t = tilings_of(conv, threads)
    fits = (t.needs["INP"] <= 1 << config.log_inp_depth) & (t.needs["WGT"] <= 1 << config.log_wgt_depth)
    fits &= (t.needs["ACC"] + reserved <= (1 << config.log_acc_depth) // threads) & (t.outputs <= most_outputs)
    width, passes = hardware.port_bytes, passes_of(config)
    image = t.image * max(1.0, config.element_bytes("inp") / width)
    weights = t.weights * max(1.0, config.element_bytes("wgt") / width)
    out = config.element_bytes("out") / width
    out = max(2.0, out) if out < 1 else out
    first, again = conv.inputs * (image + weights), conv.inputs * np.where(t.keeps_image, 0, image)
    again = again + conv.inputs * np.where(t.keeps_weights, 0, weights)
    loads = t.slabs * first + (t.tiles - t.slabs) * again
    bound = np.maximum(loads, max(conv.gemm_steps, passes * conv.sums, out * conv.sums))
    sums = conv.sums / t.tiles  # of a tile on average: those at edges are smaller
    products = sums * conv.inputs * conv.taps
    ends = (passes - 1) * sums + out * sums / _PARTS
    fetched = t.loads * _PER_INSTRUCTION / 2
    if threads > 1:
        tile = np.maximum(products, _chain(sums, products, t.steps, passes, out)) + t.steps * 2 + _PER_TILE
        cycles = t.slabs * np.maximum(first + fetched, tile) + (t.tiles - t.slabs) * np.maximum(again + fetched, tile)
    else:
        tile = products + sums + ends + 2 * hardware.latency + 2 * _PER_TILE
        cycles = t.tiles * (tile + t.steps * hardware.latency) + loads
    begins = np.maximum(first / t.steps, t.sums * (1 + 1 / _PARTS)) + 4 * hardware.latency
    cycles = cycles + begins + ends + hardware.latency + _PER_TILE
    return Estimate(np.where(fits, bound, np.inf), np.where(fits, cycles, np.inf))


def _chain(sums: np.ndarray, products: np.ndarray, steps: np.ndarray, passes: int, out: float) -> np.ndarray:
    """From a tile's last product until its accumulators are ready for the tile after the next.

    Rescaled in parts, of which the first stores behind the next tile's first step, and the last behind its
    last step but one (`pipeline.py`).
    """
    first = np.maximum((passes - 1) * sums / _PARTS, np.where(steps > 1, products / steps, 0))
    last = np.maximum((passes - 1) * sums, np.where(steps > 1, products - products / steps, 0))
    stored = np.maximum(first + out * sums, last + out * sums / _PARTS)
    handed_out = np.where(steps > 1, 0, _PARTS * (passes - 1) * _PER_INSTRUCTION)
    return np.maximum(stored + sums / _PARTS, passes * sums) + handed_out


def layer_bound(config: Config, hardware: Hardware, conv: Conv2D) -> float:
    """The least cycles that a layer can take with two virtual threads; infinite where no tiling fits."""
    return float(estimates(config, hardware, conv, 2, *usual_room(config, conv)).bound.min())


# --------------------------------------------------------------------------------------------------------- choice
@dataclass(frozen=True)
class Tuned:
    """A convolution's tiling and its cycles on the cycle simulator; of many groups or images, from a few of them."""

    conv: Conv2D
    tiling: Tiling
    cycles: int


def ranked(
    config: Config, hardware: Hardware, conv: Conv2D, threads: int, reserved: int, most_outputs: int
) -> Iterator[Tiling]:
    """The tilings that fit, the one that is expected to be fastest first."""
    found = estimates(config, hardware, conv, threads, reserved, most_outputs)
    most = most_uops(isa_of(config), threads)
    tilings = tilings_of(conv, threads).tilings
    for index in np.argsort(found.cycles, kind="stable"):
        if not np.isfinite(found.cycles[index]):
            return
        tiling = tilings[index]
        if gemm_plan(conv, tiling.rows, tiling.columns, tiling.outputs, tiling.inputs, most) is not None:
            yield tiling


@lru_cache(maxsize=4096)
def tune(
    config: Config,
    hardware: Hardware,
    conv: Conv2D,
    threads: int = 2,
    reserved: int = 0,
    most_outputs: int = 1 << 16,
    trials: int = TRIALS,
) -> Tuned:
    """Simulate the `trials` best tilings by estimate; near the bound is enough. The disk cache remembers them.

    Where two virtual threads find no room, there is one. Raises `UnsupportedError` where not even the smallest tiles
    fit on the chip.
    """
    asked = (config.to_json(), hardware, conv, threads, reserved, most_outputs, trials)
    cache, key = open_cache(), digest(compiler_fingerprint(), *map(repr, asked))
    if (known := cache.get("vta", key)) is not None:
        row = json.loads(known)
        return Tuned(conv, Tiling(**row["tiling"]), row["cycles"])
    found = _search(config, hardware, conv, threads, (reserved, most_outputs), trials)
    cache.put("vta", key, json.dumps({"tiling": asdict(found.tiling), "cycles": found.cycles}).encode())
    return found


def _search(
    config: Config, hardware: Hardware, conv: Conv2D, threads: int, room: tuple[int, int], trials: int
) -> Tuned:
    best: Tuned | None = None
    known = estimates(config, hardware, conv, threads, *room)
    hoped = max(_NEAR_BOUND * float(known.bound.min()), _NEAR_ESTIMATE * float(known.cycles.min()))
    for tiling in itertools.islice(ranked(config, hardware, conv, threads, *room), trials):
        best = _better(best, config, hardware, conv, tiling)
        if best is not None and best.cycles <= hoped:
            return best
    if best is not None:
        return best
    if threads > 1:
        return _search(config, hardware, conv, threads - 1, room, trials)
    raise UnsupportedError(
        f"{conv} does not fit on the accelerator {config.name}: one row of one block needs "
        f"{conv.rows_of(1) * conv.columns_of(1)} tiles of inputs and {conv.taps} of weights; "
        "take larger memories"
    )


def _better(best: Tuned | None, config: Config, hardware: Hardware, conv: Conv2D, tiling: Tiling) -> Tuned | None:
    """The faster one. A tiling that needs more micro-ops than there is room for is none."""
    few = replace(conv, groups=min(conv.groups, _ALIKE), images=min(conv.images, _ALIKE))
    try:
        cycles = usage_of(config, hardware, few, tiling).cycles * conv.sums // few.sums
    except InputError:
        return best
    return Tuned(conv, tiling, cycles) if best is None or cycles < best.cycles else best
