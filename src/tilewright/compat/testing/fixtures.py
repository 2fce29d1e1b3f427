"""Values of tests as fixtures: `parameter`, `parameters` and `fixture` of `tvm.testing`, and its `main`."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.compat.testing.targets import pytest_module


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """A fixture, named by the variable it is assigned to, that yields each of `values` in turn.

    `by_dict` has the values by the names that tests show for them.
    """
    if by_dict:
        ids, values = list(by_dict), tuple(by_dict.values())

    # `*_`: a fixture of a class gets the instance too.
    def current(*_: Any, request: Any) -> Any:
        return request.param

    return pytest_module().fixture(params=values, ids=None if ids is None else list(ids))(current)


@dataclass(eq=False)
class CorrelatedSets:
    """The tuples that the fixtures of one call of `parameters` take their values from, together."""

    value_sets: tuple[tuple[Any, ...], ...]
    ids: Any


def parameters(*value_sets: Any, ids: Any = None) -> list[Any]:
    """Fixtures that vary together, one for each position of the tuples: `a, b = parameters((1, 2), (3, 4))`.

    The plugin parametrizes tests with them. Raises `ValueError` unless all tuples have one length.
    """
    if len({len(values) for values in value_sets}) != 1:
        raise ValueError("tvm.testing.parameters takes tuples of one length, at least one of them")
    sets = CorrelatedSets(value_sets, None if ids is None else list(ids))
    return [_one_position(sets, position) for position in range(len(value_sets[0]))]


def _one_position(sets: CorrelatedSets, position: int) -> Any:
    def current(*_: Any, request: Any) -> Any:
        return request.param

    current.correlated = (sets, position)  # type: ignore[attr-defined]
    return pytest_module().fixture(current)


#: Values kept by `fixture(cache_return_value=True)`: one dictionary a fixture, by the values of its arguments.
_CACHES: list[dict[Any, Any]] = []


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture, which may read others, parameters too.

    With `cache_return_value` it is computed once for each set of values that it reads, until the tests of a file are
    done; each test gets a copy of its own. What cannot be copied, or depends on what has no hash, is computed anew.
    """
    if func is None:
        return functools.partial(fixture, cache_return_value=cache_return_value)
    return pytest_module().fixture(_cached(func) if cache_return_value else func)


def _cached(func: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[Any, Any] = {}
    _CACHES.append(kept)
    names = list(inspect.signature(func).parameters)

    @functools.wraps(func)
    def copied(*args: Any, **options: Any) -> Any:
        key = tuple(options[name] for name in names if name in options)
        if not _hashable(key):
            return func(*args, **options)
        if key not in kept:
            kept[key] = func(*args, **options)
        try:
            return copy.deepcopy(kept[key])
        except TypeError:  # it cannot be copied
            return func(*args, **options)

    return copied


def _hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def forget_cached() -> None:
    """Drop the values that cached fixtures keep."""
    for kept in _CACHES:
        kept.clear()


def main() -> None:
    """Run the tests of the calling file, as `python test_file.py` does."""
    test_file = sys._getframe(1).f_globals.get("__file__", sys.argv[0])
    sys.exit(pytest_module().main(["-p", "tvm.testing.plugin", str(test_file), *sys.argv[1:]]))
