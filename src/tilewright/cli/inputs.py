"""The inputs of a run: the arrays of `--input`, and random values for the rest, as models of that type expect them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tilewright.cli.options import ModelOptions, parse_shapes, require_file
from tilewright.cli.values import Given, Shape, integers, parse_inputs
from tilewright.errors import InputError, ShapeError
from tilewright.runtime.artifact import is_artifact
from tilewright.runtime.model import Model
from tilewright.runtime.signature import TensorSpec, ValueSpec
from tilewright.support.open_sizes import plausible_shapes, shapes_by_name, shapes_option

if TYPE_CHECKING:
    from tilewright.frontend.inputs import Declared

#: Random integers stay below this, so that they are valid as token ids, byte values and indices.
INTEGER_LIMIT = 100
#: More seeds than this at once are a slip.
_MOST_SEEDS = 10_000

Arrays = dict[str, np.ndarray[Any, Any]]


def random_inputs(specs: Iterable[TensorSpec], seed: int, limits: Mapping[str, int] | None = None) -> Arrays:
    """One array per input: standard normal floats, random bools, integers from 0 below the smaller of 100 and `limits`.

    Raises ShapeError for a spec with symbolic dimensions, InputError for what has no random values.
    """
    return complete_inputs(list(specs), {}, seed, limits or {})


def complete_inputs(
    specs: list[TensorSpec],
    given: Mapping[str, Given],
    seed: int,
    limits: Mapping[str, int],
    sizes: Mapping[str, Shape] | None = None,
) -> Arrays:
    """An array for each input: as `given`, or random of `seed`. Symbolic dimensions are those of the given arrays and
    `sizes`.

    Raises InputError when `given` names an input that the model does not have or cannot fill it.
    """
    check_names(specs, given)
    known = {name: value.shape for name, value in given.items() if value.shape is not None}
    shapes = _shapes(specs, {**(sizes or {}), **known})
    generator = np.random.default_rng(seed)
    made: Arrays = {}
    for spec in specs:
        value, shape = given.get(spec.name), shapes[spec.name]
        if value is not None:
            made[spec.name] = value.make(spec, shape, generator)
        else:
            made[spec.name] = _random(spec, shape, generator, min(INTEGER_LIMIT, limits.get(spec.name, INTEGER_LIMIT)))
    return made


def check_names(specs: list[TensorSpec], given: Mapping[str, Given]) -> None:
    """Raise InputError when `given` names an input that the model does not have."""
    names = {spec.name for spec in specs}
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"the model has no input {unknown[0]!r}; its inputs are: {', '.join(map(str, specs))}")


def _random(spec: TensorSpec, shape: Shape, generator: np.random.Generator, limit: int) -> np.ndarray[Any, Any]:
    if isinstance(spec, ValueSpec) or spec.dtype.is_string:
        raise InputError(f"input {spec} has no random values; set it with --input {spec.name}=FILE.npy")
    if spec.dtype.is_float:
        return np.asarray(generator.standard_normal(shape)).astype(spec.numpy)
    if spec.dtype.is_bool:
        return np.asarray(generator.random(shape) < 0.5)
    return integers(generator, 0, min(limit - 1, spec.dtype.limits()[1]), shape).astype(spec.numpy)


def _shapes(specs: list[TensorSpec], given: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shape of each input, symbolic dimensions filled in from those given. Raises ShapeError for what
    nothing tells.
    """
    sizes: dict[str, int] = {}
    for spec in specs:
        if len(given.get(spec.name, ())) == len(spec.shape):
            sizes |= {dim: extent for dim, extent in zip(spec.shape, given.get(spec.name, ())) if isinstance(dim, str)}
    shapes = {spec.name: [sizes.get(str(dim), dim) for dim in spec.shape] for spec in specs if spec.name not in given}
    loose = {name: shape for name, shape in shapes.items() if not all(isinstance(dim, int) for dim in shape)}
    if loose:
        named = [(name, [dim if isinstance(dim, int) else str(dim) for dim in shape]) for name, shape in loose.items()]
        raise _open_sizes(named, compiled=True)
    return {**given, **{name: tuple(int(dim or 0) for dim in shape) for name, shape in shapes.items()}}


def _open_sizes(inputs: list[tuple[str, list[int | str]]], compiled: bool = False) -> ShapeError:
    """The error for inputs of symbolic sizes: all of them at once, with what to add to the command."""
    names = list(dict.fromkeys(dim for _, dims in inputs for dim in dims if isinstance(dim, str)))
    listed = "; ".join(f"input {name!r} is [{', '.join(map(str, dims))}]" for name, dims in inputs)
    shapes = plausible_shapes(inputs)
    texts = [f'--input "{name}=normal(0,1)[{",".join(map(str, shape))}]"' for name, shape in shapes.items()]
    drawn, fixed = " ".join(texts), shapes_option(inputs)
    return ShapeError(
        f"{listed}: random values need the dynamic dimension{'s' if len(names) > 1 else ''} {', '.join(names)}; fix "
        f"{'them' if len(names) > 1 else 'it'}, for example with {drawn if compiled else fixed}, or set the inputs "
        f"with --input {inputs[0][0]}=FILE.npy"
    )


@dataclass(frozen=True)
class InputSet:
    """The inputs of one run. `seed` is that of the inputs `drawn`; None where all are given."""

    arrays: Arrays
    seed: int | None
    drawn: tuple[str, ...]

    @property
    def origin(self) -> str:
        """The origin of the inputs, for a heading."""
        return "given inputs" if self.seed is None else f"inputs from seed {self.seed}"


@dataclass(frozen=True)
class InputOptions:
    """`--input` and `--seed` of every verb that runs a model, as they were given."""

    given: Mapping[str, Given]
    seeds: tuple[int, ...]
    #: The shapes of inputs of a model whose dimensions are symbolic.
    sizes: Mapping[str, Shape] = field(default_factory=dict)

    def at_sizes(self, options: ModelOptions) -> InputOptions:
        """These inputs; with `--open` of the sizes that `--input-shapes` sets."""
        return replace(self, sizes=parse_shapes(options.shapes) or {}) if options.symbolic else self

    def open(
        self,
        path: str,
        options: ModelOptions,
        executor: str = "auto",
        check: bool = False,
        runs: bool = True,
        exact_rounding: bool = False,
    ) -> Model:
        """As `options.open`; the shapes of given arrays fix symbolic dimensions as `--input-shapes` does.

        Raises ShapeError, before anything is compiled, when random values need sizes that are symbolic.
        """
        require_file(path)
        if is_artifact(path):
            return options.open(path, executor, exact_rounding=exact_rounding)
        # only models need it, not artifacts
        from tilewright.frontend.formats.table import frontend_for

        declared = frontend_for(path, options.signature).declared(path)
        named = shapes_by_name(parse_shapes(options.shapes), [entry.name for entry in declared])
        known = named | {entry.name: shape for entry in declared if (shape := self._fixing(entry, named)) is not None}
        self._require_sizes(declared, known)
        fixed = {name: shape for name, shape in known.items() if name not in named}
        return options.open(path, executor, fixed, check, runs, exact_rounding)

    def _fixing(self, entry: Declared, named: Mapping[str, Shape]) -> Shape | None:
        """The shape that a given array fixes an input with symbolic dimensions to; None where it has none, or
        does not fit.
        """
        given = self.given.get(entry.name)
        if given is None or given.shape is None or entry.name in named or not entry.is_tensor:
            return None
        dims = entry.labels
        if dims is None:
            return given.shape
        fits = len(dims) == len(given.shape) and all(
            isinstance(dim, str) or dim == extent for dim, extent in zip(dims, given.shape)
        )
        return given.shape if fits and any(isinstance(dim, str) for dim in dims) else None

    def _require_sizes(self, declared: list[Declared], known: Mapping[str, Shape]) -> None:
        sizes = {
            dim: extent
            for entry in declared
            if entry.name in known and entry.labels is not None
            for dim, extent in zip(entry.labels, known[entry.name])
        }
        loose = []
        for entry in declared:
            given = self.given.get(entry.name)
            if entry.labels is None or entry.name in known or (given is not None and given.shape is not None):
                continue
            dims = [sizes.get(dim, dim) for dim in entry.labels]
            if not all(isinstance(dim, int) for dim in dims):
                loose.append((entry.name, dims))
        if loose:
            raise _open_sizes(loose)

    def sets(self, executable: Model, path: str, seeds: tuple[int, ...] = ()) -> Iterator[InputSet]:
        """The inputs of each run of `executable`, made of the model at `path`: one for each seed.

        Without `--seed` for the `seeds` here, else for a fresh one; where nothing is drawn, once.
        """
        check_names(list(executable.inputs), self.given)
        free = [spec.name for spec in executable.inputs if spec.name not in self.given]
        states = {name: value for name, value in (_states(path) if free else {}).items() if name in free}
        specs = [spec for spec in executable.inputs if spec.name not in states]
        drawn = tuple(spec.name for spec in specs if spec.name not in self.given or self.given[spec.name].drawn)
        if not drawn:
            yield InputSet({**complete_inputs(specs, self.given, 0, {}, self.sizes), **states}, None, ())
            return
        limits = _limits(path) if any(spec.dtype.is_int for spec in specs if spec.name in free) else {}
        for seed in self.seeds or seeds or (fresh_seed(),):
            yield InputSet({**complete_inputs(specs, self.given, seed, limits, self.sizes), **states}, seed, drawn)

    def one(self, executable: Model, path: str, purpose: str, seeds: tuple[int, ...] = ()) -> InputSet:
        """The inputs where there can be one run only. Raises InputError for several seeds."""
        if len(self.seeds) > 1:
            raise InputError(f"{purpose}; use one --seed")
        return next(self.sets(executable, path, seeds))


def _states(path: str) -> Mapping[str, np.ndarray[Any, Any]]:
    """`Frontend.first_states` of a model; nothing is known of an artifact's."""
    if is_artifact(path):
        return {}
    # as in `InputOptions.open`
    from tilewright.frontend.formats.table import frontend_of

    return frontend_of(path).first_states(path)


def _limits(path: str) -> Mapping[str, int]:
    """`Frontend.index_limits` of a model; nothing is known of an artifact's."""
    if is_artifact(path):
        return {}
    # as in `InputOptions.open`
    from tilewright.frontend.formats.table import frontend_of

    return frontend_of(path).index_limits(path)


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a verb the options of `InputOptions`; it receives them as the argument `inputs`."""

    @functools.wraps(command)
    def gathered(input_texts: tuple[str, ...], seed_texts: tuple[str, ...], **rest: Any) -> Any:
        seeds = tuple(dict.fromkeys(seed for text in seed_texts for seed in parse_seeds(text)))
        return command(inputs=InputOptions(parse_inputs(input_texts), seeds), **rest)

    given = click.option(
        "--input", "input_texts", multiple=True, metavar="NAME=VALUE",
        help="an input: FILE.npy, FILE.npz, 16000, [1,2,3], 0..255, uniform(0,1); the others are random",
    )  # fmt: skip
    seed = click.option(
        "--seed", "seed_texts", multiple=True, metavar="N",
        help="seed of the random inputs; repeat it, or write FIRST..LAST, for as many runs",
    )  # fmt: skip
    return given(seed(gathered))


def parse_seeds(text: str) -> range:
    """`7` or `0..9`. Raises InputError for anything else."""
    found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text.strip())
    seeds = range(int(found[1]), int(found[2] or found[1]) + 1) if found is not None else range(0)
    if not 0 < len(seeds) <= _MOST_SEEDS:
        raise InputError(f"--seed {text!r} is not understood; write it as a number, 7, or as several, 0..9")
    return seeds


def fresh_seed() -> int:
    """A seed that differs from run to run, small enough to type."""
    return int(np.random.default_rng().integers(1_000_000))
