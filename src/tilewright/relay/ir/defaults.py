"""The attributes of an operator that a program may leave out: the defaults of the function that builds its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import Op, builder


def with_defaults(op: Op, args: Sequence[Expr], attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """`attrs` with those added that the builder of `op` would set; unchanged where it has none or sets others."""
    build = builder(op.name)
    if build is None or _known(build) <= attrs.keys():
        return attrs
    try:
        built = build(*args, **attrs)
    except (TypeError, ValueError, LookupError, TilewrightError):
        return attrs
    given = Attrs(attrs)
    if not isinstance(built, Call) or built.op is not op or len(built.args) != len(args):
        return attrs
    if any(key in given and given[key] != value for key, value in built.attrs.items()):
        return attrs
    return {**built.attrs, **attrs}


def kept(op: Op, args: Sequence[Expr], attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of `attrs` that a call of `op` has: without what its builder does not know, or checks and does not keep."""
    build = builder(op.name)
    if build is None:
        return attrs
    known = inspect.signature(build).parameters
    given = {name: value for name, value in attrs.items() if name in known}
    try:
        built = build(*args, **given)
    except (TypeError, ValueError, LookupError, TilewrightError):
        return given
    return {name: value for name, value in given.items() if name in built.attrs}


@cache
def _known(build: Callable[..., Any]) -> set[str]:
    """The names of its parameters that have defaults."""
    found = inspect.signature(build).parameters.values()
    return {p.name for p in found if p.default is not inspect.Parameter.empty}
