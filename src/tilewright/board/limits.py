"""Models as C source within limits of memory: code that is slower but smaller, the cheapest that fits.

Steps are tried in the order of their price in products: none, tiles of fewer pixels without unrolled loops, first
layers in bands of rows (`backend.board.patches`), and both. What a step needs is estimated from the graph; what is
written has been compiled and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright.backend.board.backend import BoardBackend
from tilewright.backend.board.estimate import estimated_ram
from tilewright.backend.board.patches import Patches, patches, possible_patches
from tilewright.board.report import model_sizes
from tilewright.driver.build_source import Exported, source_backend
from tilewright.driver.optimize import optimize
from tilewright.driver.small_tiles import small_tiles
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.records.database import Database
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.cost import flops
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.runtime.export import move_into_place
from tilewright.target import Target

#: The most that knobs of templates may be, from none on; and the pixels of a tile then, for estimates.
_TILES: tuple[tuple[dict[str, int], int], ...] = (
    ({}, 4),
    ({"steps": 1, "taps": 0}, 4),
    ({"steps": 1, "taps": 0, "pixels": 2}, 2),
    ({"steps": 1, "taps": 0, "pixels": 1}, 1),
)

#: Estimates may be too large by this factor; so many steps are compiled at most.
_SLACK, _MOST_TRIES = 1.05, 8

#: The graph pass behind which bands are cut.
_BEHIND = "fixed_point"


@dataclass(frozen=True)
class Limits:
    """The most bytes of workspace, and of constants and code; None for any."""

    ram: int | None = None
    rom: int | None = None

    def __bool__(self) -> bool:
        """True if anything is limited."""
        return self.ram is not None or self.rom is not None


@dataclass(frozen=True)
class _Step:
    """Bands of rows and tiles of a model, and what they cost as a factor."""

    bands: Patches | None
    tiles: int
    price: float

    @property
    def text(self) -> str:
        """The step in words."""
        parts = []
        if self.bands is not None:
            share = 100 * self.bands.repeated / max(self.bands.products, 1)
            parts.append(f"first layers in {self.bands.bands} bands of rows, {share:.1f} % of their products repeated")
        if self.tiles:
            most = ", ".join(f"{name} {count}" for name, count in _TILES[self.tiles][0].items())
            parts.append(f"smaller tiles ({most} at most)")
        return ", ".join(parts) or "nothing was traded"


_NOTHING = _Step(None, 0, 1.0)


#: Writes source of modules, by their names in C, that went through the graph passes to a path.
WriteGraphs = Callable[[Sequence[tuple[str, IRModule]], Path], Exported]


def write_within(
    modules: Sequence[tuple[str, IRModule]],
    target: Target,
    path: Path,
    write: WriteGraphs,
    limits: Limits,
    records: Database | None = None,
) -> Exported:
    """Write models, before the graph passes, by `write`, with tuned `records`; slower where limits require it.

    Raises `UnsupportedError` with the smallest figures that were reached where nothing fits; then no file is written.
    `EnvironmentError_` where code has to be counted and there is no compiler for the target.
    """

    def written(steps: Sequence[_Step]) -> Write:
        def attempt(file: Path) -> Exported:
            graphs = [
                (own, _optimized(mod, target, step, records)) for (own, mod), step in zip(modules, steps, strict=True)
            ]
            made = write(graphs, file)
            if limits:
                made.traded = [_traded(own, step) for (own, _), step in zip(modules, steps, strict=True)]
            return made

        return attempt

    def writes() -> Iterator[Write]:
        yield written([_NOTHING] * len(modules))
        choices = [_steps(mod, target, limits) for _, mod in modules]
        for turn in range(max(map(len, choices))):
            yield written([some[min(turn, len(some) - 1)] if some else _NOTHING for some in choices])

    return first_within(writes(), path, target, limits)


#: Writes source to a path.
Write = Callable[[Path], Exported]


def first_within(writes: Iterable[Write], path: Path, target: Target, limits: Limits) -> Exported:
    """Write to `path` by the first of several ways that is within limits; raises as `write_within` does."""
    if not limits:
        return next(iter(writes))(path)
    figures = []
    for write in writes:
        with TemporaryDirectory(prefix="tilewright-limits-") as folder:
            made = write(Path(folder) / path.name)
            found = _figures(made, limits, target)
            if _fits(found[0], limits.ram) and _fits(found[1], limits.rom):
                files = [path.parent / file.name for file in made]
                move_into_place(list(zip(made, files, strict=True)))
                made[:] = files
                return made
        figures.append(found)
    smallest = min(ram for ram, _ in figures), min(rom for _, rom in figures)
    raise UnsupportedError(_refusal(smallest, limits, len(figures)))


def _fits(found: int, limit: int | None) -> bool:
    return limit is None or found <= limit


def _traded(name: str, step: _Step) -> str:
    return f"{name}: for the limits {step.text}; about {step.price:.2f} times the instructions"


def _refusal(smallest: tuple[int, int], limits: Limits, tries: int) -> str:
    """The message that nothing fits, with the smallest figures of so many tries."""
    parts = []
    for found, limit, what, option in (
        (smallest[0], limits.ram, "workspace", "--ram-limit"),
        (smallest[1], limits.rom, "code and constants", "--rom-limit"),
    ):
        if limit is not None:
            parts.append(f"the smallest {what} that was reached is {found:,} bytes, and {option} is {limit:,}")
    tried = "smaller tiles and bands of rows were tried; " if tries > 1 else ""
    return (
        f"{'; '.join(parts)}: {tried}a smaller input, fewer channels in the first layers or a model of bytes need less "
        "(--report has all layers)"
    )


def _figures(made: Exported, limits: Limits, target: Target) -> tuple[int, int]:
    """Bytes of workspace, and of code and constants where these are limited."""
    ram = max((model.c_model.interface.workspace_size for model in made.models), default=0)
    if limits.rom is None:
        return ram, 0
    sizes = model_sizes(made, str(target))
    if sizes is None:
        raise EnvironmentError_("--rom-limit needs a C compiler for the target, which counts the code")
    return ram, sizes.rom


def _optimized(mod: IRModule, target: Target, step: _Step, records: Database | None) -> IRModule:
    bands = step.bands
    after = {} if bands is None else {_BEHIND: lambda made: patches(_without_moves(made), bands)}
    optimized = optimize(mod, target, records, after)
    return small_tiles(optimized, target, _TILES[step.tiles][0])[0] if step.tiles else optimized


def _steps(mod: IRModule, target: Target, limits: Limits) -> list[_Step]:
    """The steps to try for a model: those that are estimated to fit, by their price, or the one that needs least."""
    backend = source_backend(target)
    if not isinstance(backend, BoardBackend):
        return []
    held: dict[str, IRModule] = {}

    def keep(made: IRModule) -> IRModule:
        return held.setdefault("made", _without_moves(made))

    optimized = optimize(mod, target, None, {_BEHIND: keep})
    made = held["made"]
    prices = [small_tiles(optimized, target, most)[1] for most, _ in _TILES]
    steps = [_Step(None, tiles, price) for tiles, price in enumerate(prices)]
    if limits.ram is None:
        return steps[1:]
    products = sum(flops(call) for call in calls(made["main"].body)) / 2
    ram = _Estimates(made, backend)
    for bands in ram.possible(limits.ram):
        more = bands.repeated / products
        steps += [_Step(bands, tiles, price + more) for tiles, price in enumerate(prices)]
    steps.sort(key=lambda step: step.price)
    steps.remove(_NOTHING)
    likely = list(islice((one for one in steps if ram.of(one) <= limits.ram * _SLACK), _MOST_TRIES))
    return likely or [min(steps, key=ram.of)]


def _without_moves(mod: IRModule) -> IRModule:
    """The module without transposes of images that have channels last in their file, which have no rows."""
    return infer_type(simplify_expr(infer_type(mod)))


class _Estimates:
    """The workspace of a model by step, each found once."""

    def __init__(self, mod: IRModule, backend: BoardBackend) -> None:
        self.mod, self.backend = mod, backend
        self.known: dict[tuple[Patches | None, int], int] = {}

    def of(self, step: _Step) -> int:
        """The bytes that are estimated for a step."""
        key = step.bands, _TILES[step.tiles][1]
        if key not in self.known:
            mod = self.mod if step.bands is None else patches(self.mod, step.bands)
            self.known[key] = estimated_ram(mod, self.backend.asked(), self.backend.alignment, key[1])
        return self.known[key]

    def possible(self, limit: int) -> list[Patches]:
        """Bands of values that fit in the most bands, or of the value that needs least."""
        found = list(possible_patches(self.mod))
        most = {one.end: one for one in sorted(found, key=lambda one: one.bands)}
        needs = {end: self.of(_Step(one, len(_TILES) - 1, 1.0)) for end, one in most.items()}
        ends = {end for end, ram in needs.items() if ram <= max(limit, min(needs.values()))}
        return [one for one in found if one.end in ends]
