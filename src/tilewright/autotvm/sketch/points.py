"""The search space of a computation without a template: every choice for every knob, numbered.

    points = SketchPoints(parts, target)
    points.config(points.random(Random(0)))      # {"C.tile0": (1, 2, 8), …}

The spaces are astronomic, so that points are numbers of mixed radix and nothing is enumerated.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tilewright.autotvm.task.points import UnrestrictedPoints
from tilewright.target import Target
from tilewright.topi.schedule.sketch.config import open_knobs, plain, positions_of
from tilewright.topi.schedule.sketch.derive import ATTACH_POINTS, REGISTER_TILE, derive
from tilewright.topi.schedule.sketch.structure import MOVABLE, TILED, Part

#: Attach points of padding at which it is computed anew for each tile of results.
_AGAIN = ATTACH_POINTS[1:]

#: Of so many points at random the one that suits registers and workers best is taken.
_DRAWS = 12


class SketchPoints(UnrestrictedPoints):
    """All configurations of a computation's parts."""

    def __init__(self, parts: Sequence[Part], target: Target) -> None:
        self.parts, self.target = list(parts), target
        knobs = derive(parts, target)
        self.values = open_knobs(knobs)
        self._fixed = {name: values[0] for name, values in knobs.items() if name not in self.values}
        self.knobs = {name: len(values) for name, values in self.values.items()}
        self.size = math.prod(self.knobs.values())

    def __len__(self) -> int:
        return min(self.size, sys.maxsize)

    def config(self, point: int) -> dict[str, Any]:
        positions = self.position(point)
        return {**self._fixed, **{name: self.values[name][position] for name, position in zip(self.knobs, positions)}}

    def plain(self, point: int) -> Mapping[str, Any]:
        return {name: plain(value) for name, value in self.config(point).items() if name in self.knobs}

    def find(self, config: Any) -> int | None:
        positions = positions_of(self.values, config)
        return None if positions is None else self.at(positions)

    def random(self, generator: Random) -> int:
        """A point; of tiles that do not fit registers or leave workers idle fewer than there are."""
        draws = [generator.randrange(self.size) for _ in range(_DRAWS if self._tiled else 1)]
        return min(draws, key=self.strain)

    def crossed(self, first: int, second: int, generator: Random) -> int:
        """A point that has all knobs of a part from one of two, as in Ansor's crossover of nodes."""
        owner = {part.name: generator.random() < 0.5 for part in self.parts}
        pairs = zip(self.knobs, self.position(first), self.position(second))
        mixed = tuple(a if owner[name.rsplit(".", 1)[0]] else b for name, a, b in pairs)
        found = self.at(mixed)
        assert found is not None
        return found

    def tiles(self, point: int) -> tuple[int, ...]:
        """The numbers of the knobs that say how large tiles are: what decides most of the time."""
        pairs = zip(self.knobs, self.position(point))
        return tuple(position for name, position in pairs if name.rpartition(".")[2].startswith(("tile", "sum")))

    def strain(self, point: int) -> float:
        """The misfit of a point's tiles to registers and workers: 0 where they fit."""
        config = self.config(point)
        again = sum(config.get(f"{part.name}.at") in _AGAIN for part in self.parts if part.role == MOVABLE)
        return sum(self._strain(part, config) for part in self._tiled) + 2.0 * again

    @property
    def _tiled(self) -> list[Part]:
        return [part for part in self.parts if part.role == TILED or part.tiles is not None]

    def _strain(self, part: Part, config: Mapping[str, Any]) -> float:
        """Of one part, in doublings away from what is good."""
        part = part.tiles or part
        tiles = [config[f"{part.name}.tile{i}"] for i in range(len(part.sizes))]
        lanes = self.target.machine.lanes(max(32, part.tensor.dtype.bits))
        wide = math.gcd(tiles[-1][2], lanes)
        vectors = math.prod(registers for _, _, registers in tiles) / wide
        shares = math.prod(-(-size // math.prod(tile)) for size, tile in zip(part.sizes, tiles))
        lost = math.log2(min(lanes, _widest(part.sizes[-1], lanes)) / wide) * 2
        most = min(self.target.machine.vector_registers, REGISTER_TILE)
        lost += max(0.0, math.log2(vectors / most)) * 2 + max(0.0, math.log2(6 / vectors))
        return lost + max(0.0, math.log2(self.target.machine.cores / shares))


def _widest(size: int, lanes: int) -> int:
    """The widest vectors that divide an axis; of one that none divides, whole ones."""
    found = math.gcd(size, lanes)
    return found if found > 1 else min(lanes, size)
