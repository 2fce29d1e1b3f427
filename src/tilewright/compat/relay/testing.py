"""`relay.testing`: running inference and passes on one expression, counting, checking gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.ir.layout_rules import with_tensors
from tilewright.compat.ir.module import IRModule, as_module
from tilewright.compat.ir.passes import CONSTRUCTORS
from tilewright.compat.relay.expr import TupleWrapper
from tilewright.compat.runtime.array import NDArray, array
from tilewright.compat.runtime.values import ADT
from tilewright.compat.testing.asserts import check_numerical_grads
from tilewright.errors import UnsupportedError
from tilewright.relay.interpreter.interpreter import evaluate
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.visitor import calls, global_vars
from tilewright.relay.transform.gradient.gradient import gradient
from tilewright.relay.transform.layout.alter_op_layout import altered_layout
from tilewright.relay.transform.simplify.legalize import legalization


def run_infer_type(expr: Any) -> Any:
    """`expr` with its types inferred; fields that unpack stay so."""
    if isinstance(expr, TupleWrapper):
        return TupleWrapper(run_infer_type(expr.astuple()), len(expr))
    return _main_of(infer_module(IRModule.from_expr(expr)), expr)


def infer_module(mod: Any) -> IRModule:
    """The module with its types inferred, those of open parameters from the operators that read them."""
    return IRModule.of(infer_type(as_module(mod)))


def run_opt_pass(expr: relay.Expr, opt_pass: Any, import_prelude: bool = False) -> relay.Expr:
    """`expr` after a pass or a list of passes."""
    mod = IRModule.from_expr(expr)
    if import_prelude:
        mod.import_from_std("prelude.rly")
    for one in opt_pass if isinstance(opt_pass, Sequence) else [opt_pass]:
        mod = one(infer_module(mod))
    return _main_of(infer_module(mod), expr)


def _main_of(mod: IRModule, like: relay.Expr) -> relay.Expr:
    """The function `main` with the type of its result, or its body if `like` is no function."""
    main: relay.Function = mod["main"]
    if not isinstance(like, relay.Function):
        return main.body
    type_ = main.inferred_type
    if main.ret_type is not None or not isinstance(type_, relay.FuncType):
        return main
    annotated = relay.Function(main.params, main.body, type_.ret_type, main.type_params, main.attrs)
    annotated.set_inferred_type(type_)
    return annotated


def rand(dtype: str = "float32", *shape: int) -> NDArray:
    """Uniform random numbers between 0 and 1."""
    return array(np.random.default_rng().random(shape).astype(dtype))


def count_ops(expr: relay.Expr) -> dict[str, int]:
    """The number of calls of each operator in `expr`."""
    return dict(Counter(getattr(call.op, "name", "function") for call in calls(expr)))


def check_grad(
    func: relay.Function,
    inputs: Sequence[Any] | None = None,
    test_inputs: Sequence[Any] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Any = None,
    executor_kind: str = "debug",
) -> None:
    """Raise `AssertionError` unless the gradient of `func` agrees with finite differences.

    `inputs` are by default normal numbers times `scale` (10 * `eps`) around `mean`, so small that a step of `eps` shows
    in float32; `test_inputs` are those whose gradients are checked (all by default).
    """
    mod = infer_module(IRModule.from_expr(func))
    main: relay.Function = mod["main"]
    rng = np.random.default_rng(0)
    values = (
        list(inputs)
        if inputs is not None
        else [_random(param, rng, 10 * eps if scale is None else scale, mean) for param in main.params]
    )
    backward = gradient(main, mode=mode)
    _, grads = relay.evaluate(IRModule.from_expr(backward), values)
    checked = range(len(values)) if test_inputs is None else [i for i, v in enumerate(values) if _among(v, test_inputs)]

    def total(*changed: Any) -> float:
        full = list(values)
        for index, value in zip(checked, changed, strict=True):
            full[index] = value
        return float(np.sum(relay.evaluate(mod, full), dtype=np.float64))

    check_numerical_grads(
        total, [values[i] for i in checked], [grads[i] for i in checked], delta=eps, atol=atol, rtol=rtol
    )


def _among(value: Any, others: Sequence[Any]) -> bool:
    return any(value is other for other in others)


def _random(param: relay.Var, rng: np.random.Generator, scale: float, mean: float) -> Any:
    type_ = param.checked_type
    assert isinstance(type_, relay.TensorType)
    return (rng.standard_normal(type_.concrete_shape) * scale + mean).astype(type_.dtype.numpy)


def _keep(*_: Any) -> None:
    """The rule of an operator without one."""


#: What stands in for a property of an operator, by its classic name.
_PROPERTIES: dict[str, Callable[[str, Any], AbstractContextManager[Any]]] = {
    "FTVMLegalize": legalization,
    "FTVMQnnLegalize": legalization,
    "FTVMAlterOpLayout": lambda op_name, rule: altered_layout(op_name, with_tensors(rule or _keep)),
}


def TempOpAttr(op_name: str, attr_key: str, attr_value: Any) -> AbstractContextManager[Any]:
    """Within a `with` block, `Legalize` of `relay.transform` ("FTVMLegalize") or of `relay.qnn.transform`
    ("FTVMQnnLegalize"), `AlterOpLayout` ("FTVMAlterOpLayout") and `relay.build` use `attr_value` for the operator.

    Raises `UnsupportedError` for other keys: computes of operators are not replaced.
    """
    if attr_key not in _PROPERTIES:
        known = ", ".join(_PROPERTIES)
        raise UnsupportedError(
            f"{attr_key} of {op_name} cannot be replaced; of an operator's properties {known} can be"
        )
    return _PROPERTIES[attr_key](op_name, attr_value)


def run_as_python(expr: relay.Expr, mod: Any = None, target: Any = None) -> Any:
    """The value of a closed expression: an array, a tuple of values, a constructor's value or a function.

    Functions and data types are those of `mod`; operators run by their references in NumPy.
    """
    base = mod if mod is not None else relay.IRModule()
    whole = base.with_function("main", relay.Function([], expr)) if "main" not in base else _beside(base, expr)
    return _classic_value(evaluate(whole, ()))


def _beside(mod: Any, expr: relay.Expr) -> Any:
    """`mod` with `expr` as what is run. Raises `UnsupportedError` where the expression calls its `main`."""
    if any(var.name == "main" for var in global_vars(expr)):
        raise UnsupportedError("run_as_python: the expression calls @main of its module; rename the function")
    return mod.with_function("main", relay.Function([], expr))


def _classic_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return ADT(0, [_classic_value(item) for item in value])
    return array(value) if isinstance(value, np.ndarray) else value


def to_cps(func: relay.Function, mod: Any = None) -> relay.Function:
    """`func` with each function in it taking what is to be done with its result."""
    base = mod if mod is not None else IRModule()
    return CONSTRUCTORS["ToCPS"]()(as_module(base.with_function("main", func)))["main"]


def _np_randn_from_type(t: Any, scale: float = 1, mean: float = 0) -> np.ndarray[Any, Any]:
    """Random numbers of a tensor type."""
    return (mean + scale * np.random.default_rng().standard_normal(t.concrete_shape)).astype(str(t.dtype))
