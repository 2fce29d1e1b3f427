"""`relay.transform` and `tvm.transform`: passes that return modules with the classic methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.backend import backend_of
from tilewright.compat.ir.layout_rules import converted, enter_rule, planned
from tilewright.compat.ir.module import IRModule, as_module
from tilewright.errors import InputError, TilewrightError
from tilewright.relay.ir.expr import Expr, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule as RelayModule
from tilewright.relay.ir.registry import OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import substitute
from tilewright.relay.transform.fuse.fuse_ops import MAX_GROUP, FusionForm, fuse_ops
from tilewright.relay.transform.manager import instrument, pass_manager
from tilewright.relay.transform.manager.instrument import PassInstrument
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.relay.transform.manager.pass_manager import Pass
from tilewright.relay.transform.passes import CLASSIC, create
from tilewright.relay.transform.quantize.to_mixed_precision import Rule
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.support.named import named


class ClassicPass(Pass):
    """A pass whose result is an `IRModule` of this layer."""

    def __call__(self, mod: RelayModule) -> IRModule:
        """The module after the pass. Raises `InputError` for what is no module."""
        if not isinstance(mod, RelayModule):
            raise InputError(f"{self.info.name} is a pass over modules: wrap the {type(mod).__name__} in an IRModule")
        return IRModule.of(super().__call__(as_module(mod)))


def classic(one: Pass) -> ClassicPass:
    """`one` with results of this layer."""
    return ClassicPass(one.info, one.transform)


def constructor(name: str) -> Callable[..., ClassicPass]:
    """The classic constructor called `name`: `FoldConstant()` is a pass."""

    function = CLASSIC[name].function
    own = inspect.signature(function)
    signature = own.replace(parameters=list(own.parameters.values())[1:])  # without the module

    def build(*args: Any, **options: Any) -> ClassicPass:
        try:
            signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        return classic(create(name, *args, **options))

    build.__signature__ = signature  # type: ignore[attr-defined]
    return named(build, name, function.__doc__)


#: The groups of the classic stack: pooling and softmax take what follows them elementwise, resizing is gathering.
_CLASSIC_FORM = FusionForm(
    views_apart=False,
    patterns={
        **dict.fromkeys(
            [f"nn.{kind}_pool{d}d" for kind in ("max", "avg") for d in (1, 2, 3)]
            + ["nn.global_max_pool2d", "nn.global_avg_pool2d", "nn.softmax", "nn.log_softmax"],
            OpPattern.OUT_ELEMWISE_FUSABLE,
        ),
        **dict.fromkeys(["nn.upsampling", "nn.upsampling3d"], OpPattern.INJECTIVE),
    },
    sparing=False,
    whole=True,
)


def FuseOps(fuse_opt_level: int = -1) -> ClassicPass:
    """Operators that make one kernel as one function; at level 0 each is alone, and -1 is the level of the context.

    Groups have the forms of the classic stack, with at most `relay.FuseOps.max_depth` calls; compiled models have other
    forms, in which reshapes and slices stay apart where they cost nothing.
    """

    def fuse(mod: RelayModule, context: Any) -> RelayModule:
        level = context.opt_level if fuse_opt_level == -1 else fuse_opt_level
        most = int(context.config.get("relay.FuseOps.max_depth", MAX_GROUP))
        return fuse_ops(mod, most if level > 0 else 1, backend_of(None).rules(), _CLASSIC_FORM)

    return classic(Pass(PassInfo(0, "FuseOps"), fuse))


def AlterOpLayout() -> ClassicPass:
    """Calls in other layouts, by the rules of the program; without any, as this package plans them."""
    return classic(Pass(PassInfo(3, "AlterOpLayout"), lambda mod, _context: planned(mod)))


def ConvertLayout(desired_layouts: Mapping[str, Any]) -> ClassicPass:
    """Operators by name in the requested layouts: `{"nn.conv2d": ["NHWC", "default"]}`."""
    return classic(Pass(PassInfo(3, "ConvertLayout"), lambda mod, _context: converted(mod, desired_layouts)))


def AnnotateTarget(targets: str | Sequence[str], include_non_call_ops: bool = True) -> ClassicPass:
    """Marks on the calls that external code generators take. Tuples and their fields are no calls, and get none."""
    return classic(create("AnnotateTarget", targets))


def ChangeBatch(data: Mapping[Var, int], batch_size: int = 16) -> ClassicPass:
    """`main` for another batch: parameter -> its axis of the batch, which becomes `batch_size` long.

    Shapes that a program states itself, as in a reshape, stay as they are. Raises `InputError` for another's parameter.
    """

    def change(mod: RelayModule, _context: Any) -> RelayModule:
        main = mod["main"]
        for param in data:
            if param not in main.params:
                raise InputError(f"ChangeBatch: {param.name} is no parameter of the module's main")
        params: list[Var] = []
        for param in main.params:
            type_ = tensor_type_of(param)
            shape = [batch_size if axis == data.get(param) else dim for axis, dim in enumerate(type_.shape)]
            params.append(Var(param.name, TensorType(shape, type_.dtype)))
        fresh: dict[Expr, Expr] = dict(zip(main.params, params, strict=True))
        return infer_type(mod.with_function("main", Function(params, substitute(main.body, fresh), attrs=main.attrs)))

    return classic(Pass(PassInfo(0, "ChangeBatch"), change))


#: The rules of a program for 16 bits by operator, with their levels.
_MIXED: dict[str, tuple[int, Rule]] = {}


def register_mixed_precision_conversion(op_name: str, func: Rule | None = None, level: int = 10) -> Any:
    """`func(call, type)` returns the category (a `Precision`), the type of the sums and that of the result.

    Without it a decorator. Raises `UnsupportedError` for an operator that is not known.
    """
    return enter_rule(_MIXED, op_name, func, level)


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> ClassicPass:
    """Calls computed in 16 bits where it pays, by the rules of the program before those of the operators."""
    rules = {op_name: rule for op_name, (_, rule) in _MIXED.items()}
    return classic(create("ToMixedPrecision", mixed_precision_type, missing_op_mode, rules))


#: The constructors of all graph passes by their classic names.
CONSTRUCTORS = {name: constructor(name) for name in CLASSIC} | {
    made.__name__: made
    for made in (FuseOps, AnnotateTarget, ChangeBatch, AlterOpLayout, ConvertLayout, ToMixedPrecision)
}


class Sequential(pass_manager.Sequential):
    """Passes one after the other; those that the context switches off are skipped."""

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        super().__init__(passes or (), opt_level, name, required or ())

    def __call__(self, mod: RelayModule) -> IRModule:
        """The module after all passes."""
        return IRModule.of(super().__call__(as_module(mod)))


def pass_instrument(pi_cls: type) -> Callable[..., PassInstrument]:
    """A class with methods of `PassInstrument` as an instrument; in one a `RuntimeError` is a `TVMError`."""
    methods = {name: getattr(pi_cls, name, None) for name in vars(PassInstrument) if not name.startswith("__")}
    wrapped = {name: _wrapped(method) for name, method in methods.items() if callable(method)}
    return instrument.pass_instrument(type(pi_cls.__name__, (pi_cls,), {"__doc__": pi_cls.__doc__, **wrapped}))


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    """A user's method, with errors as the classic stack returns them from its own callers."""

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except RuntimeError as error:
            if type(error) is not RuntimeError:
                raise
            raise TilewrightError(str(error)) from error

    return call


def _maker(make: Any, doc: str) -> Any:
    def build(pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Any = None) -> Any:
        def decorate(subject: Any) -> Any:
            subject = subject if isinstance(subject, type) else _wrapped(subject)
            made = make(subject, opt_level=opt_level, name=name, required=required or ())
            return classic(made) if isinstance(made, Pass) else lambda *args, **options: classic(made(*args, **options))

        return decorate if pass_func is None else decorate(pass_func)

    return named(build, make.__name__, f"A pass from {doc}; a decorator too.")


module_pass = _maker(pass_manager.module_pass, "a function `f(mod, ctx)` or a class with `transform_module`")
function_pass = _maker(
    pass_manager.function_pass, "a function `f(func, mod, ctx)` or a class with `transform_function`"
)


def spell_out() -> ClassicPass:
    """`relay.qnn.transform.CanonicalizeOps()`: quantized operators written in plain ones."""
    return classic(Pass(PassInfo(0, "QnnCanonicalizeOps"), lambda mod, _context: expand_operators(mod)))


def recast(
    expr: Any, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None
) -> Any:
    """An expression, or a module, with the calls of `ops` (`nn.conv2d` by default) computed in other types."""
    mod = expr if isinstance(expr, RelayModule) else IRModule.from_expr(expr)
    made = CONSTRUCTORS["Recast"](dtype, out_dtype, tuple(ops or ("nn.conv2d",)), tuple(skip_layers or ()))(mod)
    return made if isinstance(expr, RelayModule) else made["main"]


def PrintIR(header: str = "", show_meta_data: bool = False) -> ClassicPass:
    """Print the module after a line with `header`."""

    def show(mod: RelayModule, _context: Any) -> RelayModule:
        print(f"{header}\n{mod}" if header else mod)
        return mod

    return classic(Pass(PassInfo(0, "PrintIR"), show))


def unchanged(name: str) -> Callable[..., ClassicPass]:
    """The constructor of a pass that has nothing to do here."""
    return lambda: classic(Pass(PassInfo(0, name), lambda mod, _context: mod))


#: Errors show the line of a program's text without it; calls keep the positions that they have.
AnnotateSpans = unchanged("AnnotateSpans")
#: Gradients are zero where nothing flows, and no tensor is made for them.
LazyGradientInit = unchanged("LazyGradientInit")
