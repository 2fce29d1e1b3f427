"""Relay's builders in the classic spelling, where it differs: variables, constants, values that are tuples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.runtime.array import to_numpy
from tilewright.errors import InputError
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import substitute
from tilewright.runtime.tensor import Tensor
from tilewright.support.named import named


def var(
    name_hint: str, type_annotation: Any = None, shape: Sequence[Any] | None = None, dtype: str = "float32"
) -> relay.Var:
    """A variable by type, by `shape` and `dtype`, or, where `type_annotation` is a string, a scalar of that dtype."""
    if type_annotation is not None and shape is not None:
        raise InputError(f"the variable {name_hint!r} gets a type and a shape; give one of them")
    if isinstance(type_annotation, str):
        type_annotation = relay.scalar_type(type_annotation)
    return relay.var(name_hint, type_annotation, shape, dtype)


def const(value: Any, dtype: Any = None) -> relay.Constant:
    """A constant from a number, an array of NumPy or an `NDArray`."""
    return relay.const(value.numpy() if isinstance(value, Tensor) else value, dtype)


class TupleWrapper:
    """A tuple-valued call that can be unpacked, indexed and counted; `astuple()` is the call itself."""

    def __init__(self, tuple_value: relay.Expr, size: int | None = None) -> None:
        self.tuple_value = tuple_value
        self.size = len(type_of(tuple_value).fields) if size is None else size  # type: ignore[attr-defined]

    def astuple(self) -> relay.Expr:
        """The call, whose value is a tuple."""
        return self.tuple_value

    def astext(self) -> str:
        """The call as text."""
        return repr(self.tuple_value)

    def __getitem__(self, index: int) -> relay.TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"field {index} of a tuple of {self.size}")
        field = relay.TupleGetItem(self.tuple_value, index % self.size)
        whole = self.tuple_value.inferred_type
        if isinstance(whole, relay.TupleType):
            field.set_inferred_type(whole.fields[index % self.size])
        return field

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[relay.TupleGetItem]:
        return iter([self[index] for index in range(self.size)])


def tuple_valued(builder: Callable[..., relay.Expr], size: Callable[..., int] | None = None) -> Callable[..., Any]:
    """`builder` with its result in a `TupleWrapper`; `size` tells the number of fields from the arguments."""

    def build(*args: Any, **options: Any) -> TupleWrapper:
        count = None if size is None else size(*args, **options)
        return TupleWrapper(builder(*args, **options), count)

    build.__signature__ = inspect.signature(builder)  # type: ignore[attr-defined]
    return named(build, getattr(builder, "__name__", "build"), builder.__doc__)


def _sections(data: Any, indices_or_sections: Any, axis: int = 0) -> int:
    return indices_or_sections if isinstance(indices_or_sections, int) else len(indices_or_sections) + 1


split = tuple_valued(relay.split, _sections)


def _grids(data: Any, indexing: str = "ij") -> int:
    return len(data.fields if isinstance(data, relay.Tuple) else data)


meshgrid = tuple_valued(relay.meshgrid, _grids)


def batch_norm(
    data: relay.Expr,
    gamma: relay.Expr,
    beta: relay.Expr,
    moving_mean: relay.Expr,
    moving_var: relay.Expr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleWrapper:
    """The normalized data, the mean and the variance; without `center` beta counts as 0, without `scale` gamma as 1."""
    gamma = gamma if scale else relay.ones_like(moving_var)
    beta = beta if center else relay.zeros_like(moving_mean)
    return TupleWrapper(relay.nn.batch_norm(data, gamma, beta, moving_mean, moving_var, axis, epsilon), 3)


def _affine(gamma: relay.Expr, beta: relay.Expr, center: bool, scale: bool) -> tuple[relay.Expr, relay.Expr]:
    return gamma if scale else relay.ones_like(gamma), beta if center else relay.zeros_like(beta)


def layer_norm(
    data: relay.Expr, gamma: relay.Expr, beta: relay.Expr, axis: int = -1, epsilon: float = 1e-5, center: bool = True,
    scale: bool = True,
) -> relay.Call:  # fmt: skip
    """Normalization along `axis`; without `center` beta counts as 0, without `scale` gamma as 1."""
    return relay.nn.layer_norm(data, *_affine(gamma, beta, center, scale), axis, epsilon)


def instance_norm(
    data: relay.Expr, gamma: relay.Expr, beta: relay.Expr, axis: int = 1, epsilon: float = 1e-5, center: bool = True,
    scale: bool = True,
) -> relay.Call:  # fmt: skip
    """Normalization of each channel; without `center` beta counts as 0, without `scale` gamma as 1."""
    return relay.nn.instance_norm(data, *_affine(gamma, beta, center, scale), axis, epsilon)


def group_norm(
    data: relay.Expr, gamma: relay.Expr, beta: relay.Expr, num_groups: int, axis: int = 1, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
) -> relay.Call:  # fmt: skip
    """Normalization of groups of channels; without `center` beta counts as 0, without `scale` gamma as 1."""
    return relay.nn.group_norm(data, *_affine(gamma, beta, center, scale), num_groups, axis, epsilon)


def bind(expr: relay.Expr, binds: Mapping[relay.Var, Any]) -> relay.Expr:
    """`expr` with variables replaced; bound parameters of a function are no longer among its parameters."""
    values: dict[relay.Expr, relay.Expr] = {param: as_constant(value) for param, value in binds.items()}
    if not isinstance(expr, relay.Function):
        return substitute(expr, values)
    params = [param for param in expr.params if param not in values]
    return relay.Function(params, substitute(expr.body, values), expr.ret_type, expr.type_params, expr.attrs)


def bind_params_by_name(func: relay.Function, params: Mapping[str, Any]) -> relay.Function:
    """`func` with the parameters that `params` names replaced by constants."""
    by_name = {param.name: param for param in func.params}
    twice = {param.name for param in func.params if by_name[param.name] is not param}
    if twice & set(params):
        raise InputError(
            f"several parameters of the function are called {', '.join(sorted(twice & set(params)))}; "
            "bind them by the variable: relay.bind"
        )
    bound = bind(func, {by_name[name]: value for name, value in params.items() if name in by_name})
    assert isinstance(bound, relay.Function)
    return bound


def as_constant(value: Any) -> relay.Expr:
    """An expression as it is, anything else as a constant."""
    return value if isinstance(value, relay.Expr) else relay.Constant(np.asarray(to_numpy(value)))
