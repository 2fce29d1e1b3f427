"""The knobs of a computation, derived from the rules of its parts.

    knobs = derive(structure_of([out]), target)
    knobs["C.tile0"]             # ((1, 1, 8), (1, 2, 4), …): extents of the three inner of four levels of an axis

Rules are those of Ansor (OSDI 2020), section 4.1: inlining, tiling at several levels with a cache for what is written
and the elementwise end fused in, reductions shared out by rfactor. A rule that has alternatives is a knob too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from tilewright.target import Target
from tilewright.te.operation import reduces_by_lanes
from tilewright.topi.schedule.sketch.structure import EPILOGUE, INLINE, MOVABLE, PASS, REDUCE, TILED, Part
from tilewright.topi.schedule.stages import NARROWEST

Knobs = dict[str, tuple[Any, ...]]

#: Where a stage is computed that need not be: inlined, at the root, or within a loop of what reads it, counted from
#: the outermost.
INLINED, ROOT, ATTACH_POINTS = "inline", 0, (1, 2, 3)

#: How many neighbours are computed together: along the axes that are reduced over, or across results.
ALONG, ACROSS = "along", "across"

#: Iterations that are unrolled at most within a tile, in vectors; and the longest loop of a reduction that is.
REGISTER_TILE, UNROLLED_TERMS = 64, 16

#: Of a reduction to so few results workers take shares of the sum, if each gets so many terms.
_FEW_RESULTS, _TERMS_A_SHARE = 64, 512

#: An axis whose extent has fewer divisors is also tiled by powers of two, with a remainder.
_FEW_DIVISORS = 4

#: Extents up to which an axis is divided exactly or not at all.
_SMALL = 8

#: The largest tile of one axis in registers.
_WIDEST = 64


def derive(parts: Sequence[Part], target: Target) -> Knobs:
    """All knobs of a computation by name, each with its values."""
    found: Knobs = {}
    rules = {TILED: _tiled, REDUCE: _reduce, PASS: _pass, MOVABLE: _movable}
    for part in parts:
        if part.role not in (INLINE, EPILOGUE):
            found |= {f"{part.name}.{knob}": values for knob, values in rules[part.role](part, target).items()}
    return found


def _tiled(part: Part, target: Target) -> Knobs:
    knobs: Knobs = {f"tile{i}": tile_choices(size) for i, size in enumerate(part.sizes)}
    knobs |= {f"sum{i}": tuple(inner_choices(size)) for i, size in enumerate(part.terms)}
    knobs |= {"at": ATTACH_POINTS[:2], "unroll": (False, True)}
    return knobs | _shares(part, target)


def _reduce(part: Part, target: Target) -> Knobs:
    lanes = target.machine.lanes(max(32, part.tensor.dtype.bits))
    ways: list[tuple[str, int]] = []
    if reduces_by_lanes(part.op) and math.prod(part.terms) >= NARROWEST:
        ways += [(ALONG, lanes * count) for count in (1, 2, 4, 8) if lanes * count <= 2 * math.prod(part.terms)]
    if part.sizes and part.sizes[-1] > 1:
        ways += [(ACROSS, lanes * count) for count in (1, 2, 4) if lanes * count <= 2 * part.sizes[-1]]
    return {"lanes": tuple(ways or [(ACROSS, 1)]), **_placed(part), **_shares(part, target)}


def _pass(part: Part, target: Target) -> Knobs:
    lanes = target.machine.lanes(max(8, part.tensor.dtype.bits))
    return {
        "lanes": tuple((ACROSS, lanes * count) for count in (1, 2, 4)),
        "merge": tuple(range(1, max(2, len(part.sizes) + 1))),
        **({"rows": (1, 4, 8, 16)} if len(part.sizes) > 1 else {}),
        **_placed(part),
    }


def _movable(part: Part, target: Target) -> Knobs:
    """The knob of a part's attachment point; inlined into innermost loops of tiles its guards would prevent vectors."""
    tiled = any(reader.role == TILED for reader in part.readers)
    return {"at": (ROOT, *ATTACH_POINTS) if tiled else (INLINED, ROOT, *ATTACH_POINTS)}


def _placed(part: Part) -> Knobs:
    """The knobs of a part's attachment point, and of the number of outer loops fused at the root."""
    knobs: Knobs = {"fuse": tuple(range(1, max(2, len(part.sizes) + 1)))}
    return knobs if part.is_output or not part.readers else {**knobs, "at": (ROOT, *ATTACH_POINTS)}


def _shares(part: Part, target: Target) -> Knobs:
    """The knob of the number of parallel parts of a long reduction to few results."""
    cores = target.machine.cores
    fits = reduces_by_lanes(part.op) and math.prod(part.sizes) <= _FEW_RESULTS and cores > 1
    shares = [cores * count for count in (1, 2, 4) if math.prod(part.terms) >= _TERMS_A_SHARE * cores * count]
    shares = [count for count in shares if fits and part.terms[0] % count == 0]
    return {"shares": (1, *shares)} if shares else {}


def tile_choices(size: int) -> tuple[tuple[int, int, int], ...]:
    """The extents of the three inner levels of an axis; the outermost takes what is left."""
    found = []
    for inner in inner_choices(size):
        if inner > _WIDEST:
            continue
        left = -(-size // inner)
        for middle, outer in itertools.product(divisors(left), repeat=2):
            if left % (middle * outer) == 0:
                found.append((outer, middle, inner))
    return tuple(found)


def inner_choices(size: int) -> list[int]:
    """Extents of the innermost level: divisors of the axis, and powers of two where it has few."""
    exact = divisors(size)
    if len(exact) >= _FEW_DIVISORS or size <= _SMALL:
        return exact
    return sorted({*exact, *(1 << power for power in range(1, size.bit_length()) if 1 << power <= _WIDEST)})


def divisors(size: int) -> list[int]:
    """All divisors in rising order."""
    return [count for count in range(1, size + 1) if size % count == 0]
