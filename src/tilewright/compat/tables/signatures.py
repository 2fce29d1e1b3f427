"""Classic parameters: what each public function of the classic stack takes, and ours called by that.

`tables/signatures.txt` has the facts, a function a line as Python writes its parameters. Where a function of this
package has other names, another order or other defaults, `adapted` puts a function of the classic parameters before
it: an argument that ours has no parameter for is refused unless it is the classic default, so that none passes in
silence.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.support.named import named

#: Parameters that say where in a program something is written, or what to call it in its text; they change no result.
REMARKS = ("span", "tag", "name", "auto_scheduler_rewritten_layout")
#: Namespaces that hold the functions of others.
_SAME = (
    *[(f"tvm.relay.op.{part}", "tvm.relay.") for part in ("algorithm.", "reduce.", "tensor.", "transform.", "")],
    *(("tvm.tir.op.", "tvm.tir."), ("tvm.driver.build_module.", "tvm."), ("tvm.topi.transform.", "tvm.topi.")),
)


class _Expression(str):
    """A default that is no literal."""


@cache
def facts() -> dict[str, str]:
    """The parameters of each classic function as text, by its dotted name."""
    lines = (files("tilewright.compat.tables") / "signatures.txt").read_text().splitlines()
    rows = [line.partition("(") for line in lines if line and not line.startswith("#")]
    return {name: params.removesuffix(")") for name, _, params in rows}


@cache
def classic_signature(name: str) -> inspect.Signature | None:
    """The classic parameters of the function with this dotted name; None if none are known."""
    same = [plain + name.removeprefix(prefix) for prefix, plain in _SAME if name.startswith(prefix)]
    name = next((one for one in (name, *same) if one in facts()), "")
    if not name:
        return None
    definition = ast.parse(f"def f({facts()[name]}): ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    return inspect.Signature(list(_parameters(definition.args)))


def _parameters(args: ast.arguments) -> Any:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + [*args.defaults]
    for param, default in zip(positional, defaults, strict=True):
        yield inspect.Parameter(param.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=_default(default))
    if args.vararg:
        yield inspect.Parameter(args.vararg.arg, inspect.Parameter.VAR_POSITIONAL)
    for param, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield inspect.Parameter(param.arg, inspect.Parameter.KEYWORD_ONLY, default=_default(default))
    if args.kwarg:
        yield inspect.Parameter(args.kwarg.arg, inspect.Parameter.VAR_KEYWORD)


def _default(expression: ast.expr | None) -> Any:
    if expression is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(expression)
    except ValueError:
        return _Expression(ast.unparse(expression))


def by_classic_parameters(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that takes its arguments by keyword: callers use the parameters of the classic `name`.

    Those that they leave out have the classic defaults.
    """
    signature = classic_signature(name)
    assert signature is not None, name

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options)
            bound.apply_defaults()
            return function(**bound.arguments)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def own_signature(function: Any) -> inspect.Signature | None:
    """The parameters of a function of this package; None where Python does not tell."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def same_default(classic: Any, ours: Any) -> bool:
    """True for defaults that mean the same: nothing is None, (), {}, 0 or ""; 1 is (1, 1) of a window."""
    if isinstance(classic, _Expression) or classic == ours or str(classic) == str(ours):
        return True
    if classic in (None, (), [], {}, "") and ours in (None, (), [], {}, ""):
        return True
    if isinstance(classic, tuple | list) and isinstance(ours, tuple | list | int):
        return list(classic) == (list(ours) if isinstance(ours, tuple | list) else [ours] * len(classic))
    return isinstance(ours, tuple | list) and isinstance(classic, int) and set(ours) == {classic}


def matched(classic: inspect.Signature, ours: inspect.Signature) -> dict[str, str | None]:
    """For each classic parameter that of ours: the one of its name, else one of another name at its position, else
    None.

    The one at its position must mean the same when it is left out.
    """
    own = list(ours.parameters)
    found: dict[str, str | None] = {}
    for position, (name, param) in enumerate(classic.parameters.items()):
        at = own[position] if position < len(own) else None
        if name in own:
            found[name] = name
        elif at is None or at in classic.parameters or not _stands_for(param, ours.parameters[at]):
            found[name] = None
        else:
            found[name] = at
    return found


def _stands_for(classic: inspect.Parameter, ours: inspect.Parameter) -> bool:
    if ours.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return False
    return classic.default is classic.empty or same_default(classic.default, ours.default)


def can_adapt(classic: inspect.Signature, ours: inspect.Signature) -> bool:
    """True if the arguments of the one can be passed to the other: no `*args`, and none missing that ours needs."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(param.kind in variable for sig in (classic, ours) for param in sig.parameters.values()):
        return False
    passed = set(matched(classic, ours).values())
    return all(name in passed or param.default is not param.empty for name, param in ours.parameters.items())


def differs(classic: inspect.Signature, ours: inspect.Signature) -> bool:
    """True if a call by the classic parameters could mean something else to ours, or be refused by it."""
    own = list(ours.parameters.values())
    for position, param in enumerate(classic.parameters.values()):
        if position >= len(own) or own[position].name != param.name:
            return True
        if param.default is not param.empty and not same_default(param.default, own[position].default):
            return True
    return False


def adapted(name: str, value: Any) -> Any:
    """`value` under its classic dotted name: itself, or a function of the classic parameters that calls it."""
    if not inspect.isfunction(value):
        return value
    return with_old_keywords(_of_classic_parameters(name, value))


#: Keywords of other versions, and what v0.8 calls them.
OLD_KEYWORDS = {"ctx": ("device", "dev"), "ctxs": ("devices",)}


def with_old_keywords(function: Any) -> Any:
    """`function` that takes the keywords of other versions, too, where it has parameters of that meaning."""
    own = own_signature(function)
    if own is None:
        return function
    renamed = {
        old: next(name for name in names if name in own.parameters)
        for old, names in OLD_KEYWORDS.items()
        if old not in own.parameters and any(name in own.parameters for name in names)
    }
    if not renamed:
        return function

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return function(*args, **{renamed.get(key, key): value for key, value in options.items()})

    call.__signature__ = own  # type: ignore[attr-defined]
    return call


def _of_classic_parameters(name: str, value: Any) -> Any:
    classic, ours = classic_signature(name), own_signature(value)
    if classic is None or ours is None or not differs(classic, ours) or not can_adapt(classic, ours):
        return value
    return _adapter(name, value, classic, ours)


def _adapter(
    name: str, function: Callable[..., Any], classic: inspect.Signature, ours: inspect.Signature
) -> Callable[..., Any]:
    names = matched(classic, ours)
    more = [
        param.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for param in ours.parameters.values()
        if param.name not in names.values() and param.name not in classic.parameters
    ]
    signature = classic.replace(parameters=[*_with_own_defaults(classic, ours, names), *more])
    defaults = {
        own: param.default
        for key, param in classic.parameters.items()
        if (own := names[key]) is not None
        and param.default not in (param.empty, None)
        and ours.parameters[own].default is not None  # where None leaves the choice to this package
        and not same_default(param.default, ours.parameters[own].default)
    }

    def call(*args: Any, **options: Any) -> Any:
        given = dict(defaults)
        bound = signature.bind(*args, **options).arguments
        for key, value in bound.items():
            own = names.get(key, key)
            if own is not None:
                given[own] = value
            elif key == "out_layout" and value == bound.get("data_layout", bound.get("layout")):
                continue  # results are laid out as the data are
            elif not _means_nothing(key, value, classic.parameters[key].default):
                raise UnsupportedError(f"{name}: {key}={value!r} is not taken here; leave it out")
        return function(**given)

    made: Any = named(call, function.__name__, function.__doc__ or "")
    made.__signature__ = signature
    return made


def _with_own_defaults(
    classic: inspect.Signature, ours: inspect.Signature, names: dict[str, str | None]
) -> list[inspect.Parameter]:
    """The classic parameters; those at the end that ours has defaults for may be left out."""
    found: list[inspect.Parameter] = []
    may_be_left_out = True
    for param in reversed([*classic.parameters.values()]):
        own = names[param.name]
        default = param.default
        if default is param.empty:
            default = None if own is None else ours.parameters[own].default
        may_be_left_out = may_be_left_out and default is not param.empty
        found.insert(0, param.replace(default=default) if may_be_left_out else param)
    return found


def _means_nothing(key: str, value: Any, default: Any) -> bool:
    """True for an argument that changes nothing: a remark, or what is meant without it."""
    return key in REMARKS or value is None or (isinstance(value, str) and not value) or _equal(value, default)


def _equal(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except (TypeError, ValueError):  # arrays, expressions
        return False
