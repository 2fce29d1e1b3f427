"""Relay's builders in the classic spelling, where it differs: variables, constants, values that are tuples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.runtime.array import to_numpy
from tilewright.compat.tables.signatures import by_classic_parameters
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
        raise InputError(f"the variable {name_hint!r} gets a type and a shape; pass one of them")
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


def tuple_valued(builder: Callable[..., relay.Expr], size: Callable[..., int]) -> Callable[..., Any]:
    """`builder` with its result in a `TupleWrapper`, unless it is no tuple: `size` tells from the arguments, by their
    names, the number of fields, or 1.
    """
    signature = inspect.signature(builder)

    @functools.wraps(builder)
    def build(*args: Any, **options: Any) -> Any:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        made, count = builder(**bound.arguments), size(**bound.arguments)
        return made if count == 1 else TupleWrapper(made, count)

    return build


def fields(count: int) -> Callable[..., int]:
    """The `size` of a builder that always has so many fields."""
    return lambda **_: count


def _sections(indices_or_sections: Any, **_: Any) -> int:
    return indices_or_sections if isinstance(indices_or_sections, int) else len(indices_or_sections) + 1


def _grids(data: Any, **_: Any) -> int:
    return len(data.fields if isinstance(data, relay.Tuple) else data)


split, meshgrid = tuple_valued(relay.split, _sections), tuple_valued(relay.meshgrid, _grids)


@by_classic_parameters("tvm.relay.nn.batch_norm")
def batch_norm(center: bool, scale: bool, **given: Any) -> TupleWrapper:
    """The normalized data, the mean and the variance; without `center` beta counts as 0, without `scale` gamma as 1."""
    given["gamma"] = given["gamma"] if scale else relay.ones_like(given["moving_var"])
    given["beta"] = given["beta"] if center else relay.zeros_like(given["moving_mean"])
    return TupleWrapper(relay.nn.batch_norm(**given), 3)


def _affine(own: Callable[..., relay.Expr]) -> Any:
    """`own` that counts beta as 0 without `center`, gamma as 1 without `scale`."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    more = [inspect.Parameter(name, kind, default=True) for name in ("center", "scale")]
    signature = inspect.signature(own)
    signature = signature.replace(parameters=[*signature.parameters.values(), *more])

    def build(*args: Any, **options: Any) -> relay.Expr:
        given = {"center": True, "scale": True} | signature.bind(*args, **options).arguments
        if not given.pop("scale"):
            given["gamma"] = relay.ones_like(given["gamma"])
        if not given.pop("center"):
            given["beta"] = relay.zeros_like(given["beta"])
        return own(**given)

    build.__signature__ = signature  # type: ignore[attr-defined]
    return named(build, own.__name__, own.__doc__)


layer_norm, instance_norm, group_norm = (
    _affine(own) for own in (relay.nn.layer_norm, relay.nn.instance_norm, relay.nn.group_norm)
)

get_valid_counts = tuple_valued(relay.vision.get_valid_counts, fields(3))
multibox_transform_loc = tuple_valued(relay.vision.multibox_transform_loc, fields(2))
non_max_suppression = tuple_valued(
    relay.vision.non_max_suppression, lambda return_indices, **_: 2 if return_indices else 1
)
#: In the formats of ONNX (2 results) and TensorFlow (3).
all_class_non_max_suppression = tuple_valued(
    relay.vision.all_class_non_max_suppression, lambda output_format, **_: 2 if output_format == "onnx" else 3
)


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
    twice = {param.name for param in func.params if by_name[param.name] is not param} & set(params)
    if twice:
        names = ", ".join(sorted(twice))
        raise InputError(
            f"several parameters of the function are called {names}; bind them by the variable: relay.bind"
        )
    bound = bind(func, {by_name[name]: value for name, value in params.items() if name in by_name})
    assert isinstance(bound, relay.Function)
    return bound


def as_constant(value: Any) -> relay.Expr:
    """An expression as it is, anything else as a constant."""
    return value if isinstance(value, relay.Expr) else relay.Constant(np.asarray(to_numpy(value)))
