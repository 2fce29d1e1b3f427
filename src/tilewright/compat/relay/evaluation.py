"""`relay.create_executor`: expressions evaluated, by the operators' references or compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.ir.module import IRModule, as_module
from tilewright.compat.relay.any_sizes import Sized
from tilewright.compat.relay.executor import single_target
from tilewright.compat.relay.expr import bind, bind_params_by_name
from tilewright.compat.relay.interpreter_values import own_value
from tilewright.compat.runtime.array import require_cpu
from tilewright.compat.runtime.values import ADT, to_classic
from tilewright.compile import compile as compile_model
from tilewright.errors import InputError
from tilewright.relay.interpreter.interpreter import evaluate
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type import FuncType, TupleType, Type
from tilewright.relay.transform.functional.rename_bound import rename_bound
from tilewright.runtime.model import Model


class Executor:
    """The result of `create_executor`: `evaluate` runs an expression, or makes a function of one."""

    def __init__(self, kind: str, mod: Any, target: Any, params: Mapping[str, Any] | None) -> None:
        self.kind = kind
        self.mod = IRModule() if mod is None else as_module(mod)
        self.target = single_target(target)
        self.params = params

    def evaluate(self, expr: Any = None, binds: Mapping[relay.Var, Any] | None = None) -> Any:
        """The value of `expr`; for a function (None: the module's `main`) a Python function of its parameters."""
        if expr is None:
            func = self.mod["main"]
        elif isinstance(expr, relay.GlobalVar):
            func = self.mod[expr]
        else:
            # Variables of its own: what is inferred of them here holds for this use of the expression alone.
            func = expr if isinstance(expr, relay.Function) else relay.Function([], rename_bound(expr))
        if binds:
            func = bind(func, binds)
        if self.params:
            func = bind_params_by_name(func, self.params)
        runner = self._runner(func)
        returns_function = expr is None or isinstance(expr, relay.GlobalVar | relay.Function)
        return runner if returns_function else runner()

    def _runner(self, func: relay.Function) -> Callable[..., Any]:
        mod = IRModule.of(self.mod.with_functions(self.mod.functions))
        mod["main"] = func
        infer_type(mod)
        result = mod["main"].checked_type
        assert isinstance(result, FuncType)
        executor = "vm" if self.kind == "vm" else "auto"
        compiled: list[Sized] = []

        def compile_one(one: IRModule) -> Model:
            return compile_model(one, self.target, executor=executor)

        def run(*args: Any, **named: Any) -> Any:
            given = zip(func.params, _inputs(func, args, named), strict=True)
            inputs = [_converted(param, value) for param, value in given]
            if self.kind == "debug":
                return to_classic(evaluate(mod, inputs))
            if not compiled:
                compiled.append(Sized(mod, compile_one(mod), compile_one))
            value = to_classic(unflatten(compiled[0].run(inputs), result.ret_type))
            return value if self.kind == "vm" or not isinstance(value, ADT) else list(value)

        return run


def _inputs(func: relay.Function, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters, as NumPy arrays of their dtypes."""
    values = list(args)
    for param in func.params[len(args) :]:
        if param.name not in named:
            raise InputError(f"no value for the parameter {param.name!r} of the function")
        values.append(named[param.name])
    if len(values) != len(func.params):
        raise InputError(f"the function has {len(func.params)} parameters, {len(values)} values were given")
    return [_in_dtype(param, value) for param, value in zip(func.params, values, strict=True)]


def _in_dtype(param: relay.Var, value: Any) -> Any:
    """`value` as an array; a Python number takes the dtype of the parameter."""
    type_ = param.checked_type
    if isinstance(value, int | float) and isinstance(type_, relay.TensorType):
        return np.asarray(value, type_.dtype.numpy)
    return own_value(value)


def _converted(param: relay.Var, value: Any) -> Any:
    """`value` in the dtype of the parameter, as the classic executors copy numbers into buffers of their own."""
    type_ = param.checked_type
    if not isinstance(type_, relay.TensorType) or not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    return value.astype(type_.dtype.numpy, copy=False)


def unflatten(leaves: Sequence[Any], type_: Type) -> Any:
    """The arrays `leaves` as a value of `type_`: one array, or nested tuples of them."""
    remaining = iter(leaves)

    def build_value(part: Type) -> Any:
        if isinstance(part, TupleType):
            return tuple([build_value(field) for field in part.fields])
        return next(remaining)

    return build_value(type_)


KINDS = ("debug", "graph", "vm", "aot")


def create_executor(
    kind: str = "debug",
    mod: Any = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """An executor that evaluates expressions: "debug" by the operators' NumPy references, the others compiled."""
    if kind not in KINDS:
        raise InputError(f"there is no executor {kind!r}; there are: {', '.join(KINDS)}")
    require_cpu(device)
    return Executor(kind, mod, target, params)
