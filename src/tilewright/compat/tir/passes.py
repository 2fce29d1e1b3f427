"""`tir.transform`: the passes of the loop IR as objects over modules of loop functions."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from tilewright.compat.ir.module import IRModule
from tilewright.compat.ir.passes import ClassicPass
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.module import IRModule as RelayModule
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.support.named import named
from tilewright.tir.stmt import PrimFunc

#: Classic pass -> the passes of this package that do its work, in order.
PASSES: dict[str, tuple[str, ...]] = {
    "Simplify": ("simplify",),
    "LoopPartition": ("loop_partition",),
    "StorageFlatten": ("flatten_buffers",),
    "FlattenBuffer": ("flatten_buffers",),
    "StorageRewrite": ("storage_rewrite",),
    "VectorizeLoop": ("vectorize_loop",),
    "UnrollLoop": ("unroll_loop",),
    "HoistIfThenElse": ("hoist_if",),
    "RemoveNoOp": ("remove_no_op",),
    "InjectVirtualThread": ("inject_virtual_thread",),
    "InjectDoubleBuffer": ("double_buffer",),
    "InjectPrefetch": ("inject_prefetch",),
    "NarrowDataType": ("narrow_index",),
    "ThreadSync": ("thread_sync",),
    "LowerThreadAllreduce": ("bind_threads", "lower_thread_reduction"),
    "LowerWarpMemory": ("lower_warp_memory",),
    "LowerIntrin": ("lower_intrinsics",),
    "LowerTVMBuiltin": ("lower_packed_call",),
    "BF16Legalize": ("legalize_float16",),
}

#: The options of the classic constructors, and the values that these passes work by, the default first.
OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "StorageFlatten": {"cache_line_size": (64,), "create_bound_attribute": (False,)},
    "VectorizeLoop": {"enable_vectorize": (True,)},
    "HoistIfThenElse": {"variant": (None, "basic")},
    "NarrowDataType": {"target_bits": (32,)},
    "ThreadSync": {"storage_scope": ("shared",)},
}


class PrimFuncPass(ClassicPass):
    """A pass that maps each loop function of a module, and leaves other functions as they are."""

    def __call__(self, mod: RelayModule) -> IRModule:
        """The module after the pass. Raises `InputError` for what is no module."""
        if not isinstance(mod, RelayModule):
            raise InputError(f"{self.info.name} is a pass over modules: wrap the {type(mod).__name__} in an IRModule")
        return IRModule.of(self.transform(mod, PassContext.current()))


def prim_func_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Any = None, traceable: Any = None
) -> Any:
    """A pass from a function `f(func, mod, ctx)` or a class with `transform_function`; a decorator too."""

    def decorate(subject: Any) -> Any:
        if isinstance(subject, type):
            return lambda *args, **options: _over_functions(
                name or subject.__name__, subject(*args, **options).transform_function, opt_level
            )
        return _over_functions(name or subject.__name__, subject, opt_level)

    return decorate if pass_func is None else decorate(pass_func)


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> PrimFuncPass:
    """A pass that replaces each function by what `ftransform` makes of it."""
    return _over_functions("Apply", lambda func, mod, context: ftransform(func), 0)


def _over_functions(name: str, function: Callable[[PrimFunc, Any, Any], PrimFunc], opt_level: int) -> PrimFuncPass:
    def transform(mod: Any, context: Any) -> IRModule:
        changed = IRModule.of(mod.with_functions(mod.functions))
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                changed[gvar] = function(func, mod, context)
        return changed

    return PrimFuncPass(PassInfo(opt_level, name), transform)


def constructor(name: str) -> Callable[..., PrimFuncPass]:
    """The classic constructor called `name`: `Simplify()` is a pass.

    `OPTIONS` lists the values that its options may have; others raise `UnsupportedError`.
    """

    def run(func: PrimFunc, mod: Any, context: Any) -> PrimFunc:
        for own in PASSES[name]:
            func = getattr(importlib.import_module(f"tilewright.tir.transform.{own}"), own)(func)
        return func

    options = OPTIONS.get(name, {})
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter(option, kind, default=allowed[0]) for option, allowed in options.items()]
    )

    def build(*args: Any, **named_options: Any) -> PrimFuncPass:
        for option, value in signature.bind(*args, **named_options).arguments.items():
            if value not in options[option]:
                only = ", ".join(map(repr, options[option]))
                raise UnsupportedError(f"tir.transform.{name}: {option} is one of {only} here, not {value!r}")
        return _over_functions(f"tir.{name}", run, 0)

    build.__signature__ = signature  # type: ignore[attr-defined]
    return named(build, name, f"The pass {' and '.join(PASSES[name])}.")


CONSTRUCTORS = {name: constructor(name) for name in PASSES}
