"""Errors in the code of plug-ins: reported by package, file and line, as theirs and not as faults of this compiler.

fault = plugin_fault(error)       # "the plug-in wavelets 1.0 failed (wavelets/passes.py, line 7): KeyError: 'x'"
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from tilewright.errors import EnvironmentError_
from tilewright.support import plugins

P = ParamSpec("P")
T = TypeVar("T")


def plugin_fault(error: BaseException) -> str | None:
    """A sentence that names the plug-in in whose code `error` was raised, or which called what raised it; else None."""
    modules = plugins.outside_modules()
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] in modules:
            where = "/".join(Path(frame.f_code.co_filename).parts[-2:])
            what = f"{type(error).__name__}: {error}"
            return f"the plug-in {_package(name)} failed ({where}, line {line} in {frame.f_code.co_name}): {what}"
    return None


def _package(module: str) -> str:
    """The installed package that a module is of, with its version; the module where that is not known."""
    # only for an error
    from importlib.metadata import PackageNotFoundError, packages_distributions, version

    top = module.partition(".")[0]
    for name in packages_distributions().get(top, ()):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return top


@contextmanager
def _no_exit() -> Iterator[None]:
    try:
        yield
    except SystemExit as stop:
        fault = plugin_fault(stop)
        if fault is None:
            raise
        raise EnvironmentError_(f"{fault}; a plug-in may not end the process") from stop


def survives_exit(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, from which a plug-in that calls `sys.exit` does not get out: that is an `EnvironmentError_`."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        with _no_exit():
            return function(*args, **kwargs)

    return guarded
