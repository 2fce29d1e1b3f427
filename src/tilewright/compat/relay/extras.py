"""Small functions of classic Relay: composed operators, loops, the caches of its compiler, its pass configuration."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright import relay
from tilewright.compat.driver.build import BuiltModule
from tilewright.compat.ir.meanings import only
from tilewright.compat.relay.executor import ExecutorFactory, optimize
from tilewright.compat.relay.expr import TupleWrapper
from tilewright.compat.relay.vm_executable import vm_compile
from tilewright.compat.tables.signatures import by_classic_parameters
from tilewright.compat.target.target import Target
from tilewright.driver.lower import lower_function
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.scope_builder import ScopeBuilder
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.support.named import named
from tilewright.topi.layout import transform_shape


def logsumexp(data: relay.Expr, axis: Any = None, keepdims: bool = False) -> relay.Expr:
    """log(sum(exp(data))) along axes, by way of the maximum."""
    top = op.max(data, axis, True)
    total = op.log(op.sum(op.exp(data - top), axis, True)) + top
    return total if keepdims else op.squeeze(total, axis=None if axis is None else [*_axes(axis)])


def _axes(axis: Any) -> Sequence[int]:
    return [axis] if isinstance(axis, int) else list(axis)


def std(
    data: relay.Expr, axis: Any = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> relay.Expr:
    """The root of the variance."""
    return op.sqrt(op.variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: relay.Expr, axis: Any = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """The mean and the variance."""
    both = op.mean(data, axis, keepdims, exclude), op.variance(data, axis, keepdims, exclude, unbiased)
    return TupleWrapper(relay.Tuple(both), 2)


def mean_std(data: relay.Expr, axis: Any = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """The mean and the root of the variance."""
    return TupleWrapper(relay.Tuple((op.mean(data, axis, keepdims, exclude), std(data, axis, keepdims, exclude))), 2)


def _global(kind: str, rank: int, layout: str) -> Any:
    name = f"global_{kind}_pool{rank}d"
    own, default = getattr(op.nn, f"adaptive_{kind}_pool{rank}d"), layout

    def build(data: relay.Expr, layout: str = default, out_layout: str = "") -> relay.Expr:
        only(f"relay.nn.{name}", "out_layout", out_layout, "", layout)
        return own(data, 1, layout)

    return named(build, name, f"Pooling ({kind}) over all of the {rank} dimensions that windows move along.")


global_avg_pool1d, global_max_pool1d = _global("avg", 1, "NCW"), _global("max", 1, "NCW")
global_avg_pool3d, global_max_pool3d = _global("avg", 3, "NCDHW"), _global("max", 3, "NCDHW")


@by_classic_parameters("tvm.relay.nn.bitserial_conv2d")
def bitserial_conv2d(
    weight: relay.Expr, channels: int | None, kernel_size: Any, kernel_layout: str, pack_dtype: str, **more: Any
) -> relay.Expr:
    """Convolution of numbers of few bits; how they are packed on the way (`pack_dtype`) changes no result.

    Raises `InputError` where `channels` or `kernel_size` are not those of the kernel.
    """
    shape = transform_shape(tensor_type_of(weight).shape, kernel_layout, "OIHW")
    wanted = (channels or shape[0], *((kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size))
    if (shape[0], *shape[2:]) != wanted:
        raise InputError(f"bitserial_conv2d: the kernel {shape} (OIHW) is not of channels and window {wanted}")
    return op.nn.bitserial_conv2d(weight=weight, kernel_layout=kernel_layout, **more)


def _transposed(own: Callable[..., relay.Expr], classic_kernel: str) -> Any:
    """`own` with the classic default of the kernel's layout, which means [C, O/groups, …]: "IO…" elsewhere."""
    signature = inspect.signature(own)
    kernel = signature.parameters["kernel_layout"]

    @functools.wraps(own)
    def build(*args: Any, **options: Any) -> relay.Expr:
        given = signature.bind(*args, **options).arguments
        refuse(f"relay.nn.{own.__name__}", out_layout=(given.pop("out_layout", ""), ("", given.get("data_layout"))))
        if given.get("kernel_layout") == classic_kernel:
            given["kernel_layout"] = kernel.default
        return own(**given)

    return build


conv1d_transpose = _transposed(op.nn.conv1d_transpose, "OIW")
conv3d_transpose = _transposed(op.nn.conv3d_transpose, "OIDHW")


def _packed(build: Any) -> Any:
    """`build(data, kernel, **attributes of conv2d)` with these attributes as parameters."""
    data, kernel, *_ = inspect.signature(build).parameters.values()
    more = list(inspect.signature(op.nn.conv2d).parameters.values())[2:]

    def packed(*args: Any, **attrs: Any) -> relay.Expr:
        bound = signature.bind(*args, **attrs).arguments
        shape: Any = getattr(type_of(bound["kernel"]), "shape", ())
        if len(shape) == 6 and bound.get("kernel_layout", "OIHW") == "OIHW":
            attrs["kernel_layout"] = f"OIHW{shape[4]}i{shape[5]}o"
        return build(*args, **attrs)

    signature = inspect.Signature([data, kernel, *[param.replace(kind=param.KEYWORD_ONLY) for param in more]])
    packed.__signature__ = signature  # type: ignore[attr-defined]
    return named(packed, build.__name__, build.__doc__)


contrib_conv2d_nchwc = _packed(op.nn.contrib_conv2d_NCHWc)
contrib_depthwise_conv2d_nchwc = _packed(op.nn.contrib_depthwise_conv2d_NCHWc)


def refuse(what: str, **options: tuple[Any, tuple[Any, ...]]) -> None:
    """Raise `UnsupportedError` for an option, given as (value, the values it may have), that has another value."""
    for name, (value, allowed) in options.items():
        if value not in allowed:
            raise UnsupportedError(f"{what}: {name} is {allowed[-1]!r} here, not {value!r}")


def while_loop(
    cond: Callable[..., relay.Expr], loop_vars: Sequence[relay.Expr], loop_bodies: Callable[..., Any]
) -> relay.Let:
    """The function of the loop: from values for `loop_vars` to a tuple of the first ones for which not `cond`."""
    builder = ScopeBuilder()
    loop = relay.Var("while_loop")
    fresh = [
        relay.Var(getattr(var, "name", f"arg{position}"), getattr(var, "type_annotation", None) or type_of(var))
        for position, var in enumerate(loop_vars)
    ]
    with builder.if_scope(cond(*fresh)):
        made = loop_bodies(*fresh)
        builder.ret(relay.Call(loop, list(made if isinstance(made, list | tuple) else [made])))
    with builder.else_scope():
        builder.ret(relay.Tuple(fresh))
    return relay.Let(loop, relay.Function(fresh, builder.get()), loop)


def build_config(
    opt_level: int = 2, required_pass: Any = None, disabled_pass: Any = None, trace: Any = None
) -> PassContext:
    """`PassContext` by its oldest name."""
    return PassContext(opt_level, required_pass, disabled_pass)


class VMCompiler:
    """Compiles for the virtual machine step by step: `set_params`, `lower`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        self._params: dict[str, Any] = {}
        self._made: ExecutorFactory | None = None

    def set_params(self, params: Any) -> None:
        """Values of parameters."""
        self._params = dict(params)

    def get_params(self) -> dict[str, Any]:
        """The values that were set."""
        return self._params

    def optimize(self, mod: Any, target: Any = None, target_host: Any = None, params: Any = None) -> tuple[Any, Any]:
        """The module after the graph passes, and the parameters, which are constants in it now."""
        return optimize(mod, target, {**self._params, **(params or {})})

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Compile the module."""
        self._made = vm_compile(mod, target, target_host, self._params or None)

    def codegen(self) -> None:
        """Nothing: `lower` has made the code."""

    def get_exec(self) -> ExecutorFactory:
        """The compiled program. Raises `InputError` before `lower`."""
        if self._made is None:
            raise InputError("VMCompiler.get_exec comes after lower(mod, target)")
        return self._made


class TECompiler:
    """The classic compiler of single fused functions. Nothing is kept from one call to the next."""

    def clear(self) -> None:
        """Nothing is kept, so there is nothing to forget."""

    def items(self) -> list[Any]:
        """The entries kept: none."""
        return []

    def lower(self, source_func: relay.Function, target: Any = None, mod_name: str = "default") -> Any:
        """The loop function of a function of operators that fuse."""
        mod = infer_type(relay.IRModule.from_expr(source_func))
        return lower_function(mod["main"], f"{mod_name}_fused", Target(target or Target.current() or "llvm"))

    def jit(self, source_func: relay.Function, target: Any = None) -> Callable[..., None]:
        """Compiled code of such a function: its inputs, then its outputs, are the arguments."""
        func = self.lower(source_func, target)
        return BuiltModule([func], Target(target or Target.current() or "llvm"))


class CallGraph:
    """The graph of calls between the functions of a module."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._called = {
            var.name: [call.op.name for call in calls(func.body) if isinstance(call.op, relay.GlobalVar)]
            for var, func in module.functions.items()
            if isinstance(func, relay.Function)
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._called)

    def __str__(self) -> str:
        return "\n".join(self.print_var(name) for name in self._called)

    def print_var(self, var: Any) -> str:
        """The function and those that it calls, as text."""
        name = self._known(var)
        return f"{name}: {', '.join(self._called[name]) or 'calls none'}"

    def _known(self, var: Any) -> str:
        name = var if isinstance(var, str) else var.name
        if name not in self._called:
            raise InputError(f"the module has no function {name!r}; it has: {', '.join(self._called)}")
        return name

    def global_call_count(self, var: Any) -> int:
        """The number of calls of the module's functions in the function."""
        return len(self._called[self._known(var)])

    def ref_count(self, var: Any) -> int:
        """The number of calls of the function."""
        name = self._known(var)
        return sum(called.count(name) for called in self._called.values())

    def is_recursive(self, var: Any) -> bool:
        """True if the function calls itself."""
        name = self._known(var)
        return name in self._called[name]
