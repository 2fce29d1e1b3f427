"""Passes as values: what `PassContext` may switch off, what instruments see, what `Sequential` composes.

    with PassContext(opt_level=3, disabled_pass=["fold_scale_axis"], instruments=[PassTiming()]):
        mod = Sequential([infer_type_pass, fold_constant_pass])(mod)

A `Pass` is a function from a module to a module with a name and a level. `run` is the one way a pass runs, in a
`Sequential` and in the compiler's own pipeline alike: the context says whether, its instruments are called before and
after. Names are the functions' names; a context takes the classic spelling too, `FoldScaleAxis` for `fold_scale_axis`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, overload

from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.instrument import PassInstrument
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.support.suggestion import suggestion

#: The level of a context that nobody opened: everything that pays is on.
DEFAULT_OPT_LEVEL = 3


_WORD_STARTS = re.compile(r"(?<=[a-z0-9A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])")


def snake_case(name: str) -> str:
    """`fold_scale_axis` of `FoldScaleAxis`; a name in small letters is kept.

    "CombineParallelConv2D" -> "combine_parallel_conv2d"
    """
    return _WORD_STARTS.sub("_", name).lower()


class PassContext:
    """The configuration in effect while passes run. Enter it with `with`; contexts nest, the innermost counts, per
    thread of execution.

    `opt_level`: passes of a higher level are skipped. `required_pass` and `disabled_pass`: names that run, or do not,
    whatever their level (disabled wins). `config`: values by name that passes read. `instruments`: called for every
    pass. Raises `InputError` for a name in `config` that no pass has announced (`register_config_option`).
    """

    def __init__(
        self,
        opt_level: int = DEFAULT_OPT_LEVEL,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Sequence[PassInstrument] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = _names("required_pass", required_pass)
        self.disabled_pass = _names("disabled_pass", disabled_pass)
        self.instruments = tuple(instruments or ())
        self.config = _known_options(config or {})
        self._tokens: list[Token[PassContext | None]] = []

    @staticmethod
    def current() -> PassContext:
        """The innermost context that is open, or one with the defaults."""
        return _CURRENT.get() or PassContext()

    def __enter__(self) -> PassContext:
        self._tell_enter()
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._tokens.pop())
        self._tell_exit()

    def _tell_enter(self) -> None:
        """Enter all instruments; where one raises, those already entered are exited, and the context has none left."""
        entered: list[PassInstrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            self.instruments = ()
            for instrument in entered:
                instrument.exit_pass_ctx()
            raise

    def _tell_exit(self) -> None:
        """Exit all instruments; where one raises, the others are not exited, and the context has none any more."""
        try:
            for instrument in self.instruments:
                instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = ()
            raise

    @property
    def spelling(self) -> str:
        """All that may change what is compiled, as text: the same for contexts that are alike."""
        names = (sorted(self.required_pass), sorted(self.disabled_pass), sorted(self.config.items()))
        return f"opt_level={self.opt_level}, required, disabled, config={names}"

    def override_instruments(self, instruments: Sequence[PassInstrument]) -> None:
        """Other instruments from now on; the old ones exit the context, the new ones enter it."""
        self._tell_exit()
        self.instruments = tuple(instruments or ())
        self._tell_enter()

    def enabled(self, info: PassInfo) -> bool:
        """True if a pass with this `info` runs in this context."""
        name = snake_case(info.name)
        if name in self.disabled_pass:
            return False
        return name in self.required_pass or self.opt_level >= info.opt_level


_CURRENT: ContextVar[PassContext | None] = ContextVar("tilewright_pass_context", default=None)


_OPTIONS: dict[str, str] = {}


def register_config_option(name: str, doc: str) -> None:
    """Announce the name of a value that a pass reads from `PassContext.config`; `doc` says what it does."""
    _OPTIONS[name] = doc


def config_options() -> dict[str, str]:
    """The announced names of `PassContext.config`, and what they do."""
    return dict(_OPTIONS)


def _known_options(config: Mapping[str, Any]) -> dict[str, Any]:
    for name in config:
        if name not in _OPTIONS:
            raise InputError(
                f"PassContext: no pass reads the config option {name!r}{suggestion(name, sorted(_OPTIONS))}"
            )
    return dict(config)


def _names(argument: str, names: Iterable[str] | None) -> frozenset[str]:
    if isinstance(names, str):
        raise InputError(f"{argument} is a list of pass names, not one string: write {argument}=[{names!r}]")
    return frozenset([snake_case(name) for name in names or ()])


@dataclass(frozen=True)
class Pass:
    """A pass as a value: calling it runs `transform(mod, context)` as `run` says."""

    info: PassInfo
    transform: Callable[[IRModule, PassContext], IRModule] = field(repr=False)

    def __call__(self, mod: IRModule) -> IRModule:
        """The module after the pass, or `mod` itself where an instrument says that the pass shall not run."""
        context = PassContext.current()
        return run(self.info, lambda m: self.transform(m, context), mod)


class Sequential(Pass):
    """Passes one after the other; those that the context switches off are skipped."""

    def __init__(
        self, passes: Sequence[Pass], opt_level: int = 0, name: str = "sequential", required: Sequence[str] = ()
    ) -> None:
        for one in passes:
            if not callable(one):
                raise InputError(f"a Sequential is made of passes, not of {one!r}")
        object.__setattr__(self, "passes", tuple(passes))
        super().__init__(PassInfo(opt_level, name, tuple(required)), self._run_all)

    passes: tuple[Pass, ...]

    def _run_all(self, mod: IRModule, context: PassContext) -> IRModule:
        for one in self.passes:
            if context.enabled(one.info):
                mod = one(mod)
        return mod


def run(info: PassInfo, transform: Callable[[IRModule], IRModule], mod: IRModule) -> IRModule:
    """`transform(mod)`, with the instruments of the current context called before and after it.

    The pass is skipped if one of them answers `should_run` with no. A pass that names others in `required` has run
    them by itself: the field is for instruments and people to read.

    Raises UnsupportedError where it returns something else than a module.
    """
    instruments = PassContext.current().instruments
    if not all(one.should_run(mod, info) for one in instruments):
        return mod
    for one in instruments:
        one.run_before_pass(mod, info)
    result = transform(mod)
    if not isinstance(result, IRModule):
        raise UnsupportedError(f"the pass {info.name} returned a {type(result).__name__}, not a module")
    for one in instruments:
        one.run_after_pass(result, info)
    return result


ModuleTransform = Callable[[IRModule, PassContext], IRModule]
FunctionTransform = Callable[[Function, IRModule, PassContext], Function]


@overload
def module_pass(
    pass_func: ModuleTransform, opt_level: int = ..., name: str | None = ..., required: Sequence[str] = ...
) -> Pass: ...
@overload
def module_pass(
    pass_func: None = ..., opt_level: int = ..., name: str | None = ..., required: Sequence[str] = ...
) -> Callable[[Any], Any]: ...
def module_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Sequence[str] = ()
) -> Any:
    """Make a pass of `f(mod, ctx) -> mod`, or of a class with a method `transform_module(mod, ctx)`; a decorator too.

    A decorated class stays a class: its instances are passes.
    """
    return _decorate(pass_func, opt_level, name, required, "transform_module", lambda f: f)


def function_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Sequence[str] = ()
) -> Any:
    """Make a pass of `f(func, mod, ctx) -> func`, applied to each function; or of a class with `transform_function`.

    Functions for an external code generator (attribute `Compiler`) and primitive ones are left as they are.
    """

    def per_module(transform: FunctionTransform) -> ModuleTransform:
        def apply(mod: IRModule, context: PassContext) -> IRModule:
            return mod.map_functions(lambda func: func if is_opaque(func) else transform(func, mod, context))

        return apply

    return _decorate(pass_func, opt_level, name, required, "transform_function", per_module)


def is_opaque(func: Function) -> bool:
    """True for functions that passes do not look into: fused kernels and those of external code generators."""
    return "Primitive" in func.attrs or "Compiler" in func.attrs


def _decorate(
    pass_func: Any, opt_level: int, name: str | None, required: Sequence[str], method: str, adapt: Callable[[Any], Any]
) -> Any:
    def make(subject: Any) -> Any:
        info = PassInfo(opt_level, name or subject.__name__, tuple(required))
        if not isinstance(subject, type):
            return Pass(info, adapt(subject))
        if not hasattr(subject, method):
            raise InputError(f"the class {subject.__name__} has no method {method}, so it is no pass")

        def build(*args: Any, **keywords: Any) -> Pass:
            return Pass(info, adapt(getattr(subject(*args, **keywords), method)))

        build.__name__, build.__doc__ = subject.__name__, subject.__doc__
        return build

    return make if pass_func is None else make(pass_func)
