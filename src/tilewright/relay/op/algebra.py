"""Sums of products by subscripts, variance, running products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import reduce, transform
from tilewright.relay.op import tensor as tensor_ops
from tilewright.relay.op.common import (
    Types,
    call,
    check_axis,
    require,
    require_float,
    require_same_dtype,
    same_dim,
    same_dims,
    tensor,
    tensors,
    tuple_of_tensors,
    with_attrs,
)
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.following import deviation
from tilewright.relay.op.reduce import Axis
from tilewright.topi import tag
from tilewright.topi.util import accumulator_dtype, normalize_axes


# ----------------------------------------------------------------------------------------------------------- einsum
def subscripts(equation: str) -> tuple[list[str], str]:
    """The labels of each operand and of the result; without "->" the result has those that occur once, sorted."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = [letter for term in terms for letter in term]
    result = right if arrow else "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    return terms, result


def _einsum_type(types: Types, attrs: Attrs) -> Type:
    parts = tuple_of_tensors(types[0])
    require_same_dtype(*parts)
    terms, result = subscripts(attrs["equation"])
    require(len(terms) == len(parts), f"{len(terms)} terms for {len(parts)} operands")
    require("." not in attrs["equation"], "an ellipsis is not supported; name every axis")
    sizes: dict[str, Any] = {}
    for term, part in zip(terms, parts):
        require(len(term) == part.ndim, f"the term {term!r} does not fit the shape {part.shape}")
        for label, size in zip(term, part.shape):
            require(
                same_dim(sizes.setdefault(label, size), size),
                f"the label {label!r} has the sizes {sizes[label]} and {size}",
            )
    known = all(label in sizes for label in result) and len(set(result)) == len(result)
    require(known, f"the result {result!r} must name each label of the operands at most once")
    return TensorType([sizes[label] for label in result], parts[0].dtype)


def _einsum_compute(attrs: Attrs, inputs: list[te.Tensor], out: Any) -> list[te.Tensor]:
    terms, result = subscripts(attrs["equation"])
    sizes = {label: size for term, x in zip(terms, inputs) for label, size in zip(term, x.shape)}
    summed = [label for label in sizes if label not in result]
    axes = {label: te.reduce_axis((0, sizes[label]), name=label) for label in summed}

    def body(*indices: Any) -> Any:
        where = {**dict(zip(result, indices)), **{label: axis.var for label, axis in axes.items()}}
        value: Any = None
        for term, x in zip(terms, inputs):
            part = x(*[where[label] for label in term])
            value = part if value is None else value * part
        return te.sum(value, axis=list(axes.values())) if axes else value

    return [te.compute(out.shape, body, name="T_einsum", tag=tag.COMM_REDUCE if axes else tag.INJECTIVE)]


register(
    "einsum",
    num_inputs=1,
    type_rule=_einsum_type,
    compute=_einsum_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, *parts: np.asarray(np.einsum(attrs["equation"], *parts)).astype(parts[0].dtype),
    attributes={"equation": attr.text()},
)


def einsum(data: Any, equation: str) -> Call:
    """The sum of products of the tensors of the tuple `data` that `equation` describes: ``"ij,jk->ik"``."""
    return call("einsum", data if isinstance(data, Expr) else Tuple(data), equation=equation)


# --------------------------------------------------------------------------------------------------------- variance
def _variance_type(types: Types, attrs: Attrs) -> Type:
    data, mean = tensors(types)
    require_float(data)
    require_same_dtype(data, mean)
    axes = normalize_axes(attrs["axis"], data.ndim, attrs["exclude"])
    wanted = tuple([1 if d in axes else size for d, size in enumerate(data.shape)])
    require(same_dims(mean.shape, wanted), f"a mean of shape {wanted} is needed, not {mean.shape}")
    shape = wanted if attrs["keepdims"] else [size for d, size in enumerate(data.shape) if d not in axes]
    return TensorType(shape, data.dtype)


def _variance(args: Any, attrs: Attrs) -> Expr:
    data, mean = args
    kind = tensor(data.checked_type)
    axes = normalize_axes(attrs["axis"], kind.ndim, attrs["exclude"])
    sizes = [kind.shape[a] for a in axes]
    centred = data - mean
    total = reduce.sum(centred * centred, axis=axes, keepdims=attrs["keepdims"])
    if not all(isinstance(size, int) for size in sizes):  # counted when it runs
        count = reduce.sum(tensor_ops.ones_like(data), axis=axes, keepdims=attrs["keepdims"])
        return total / (count - 1.0 if attrs["unbiased"] else count)
    elements = math.prod(sizes)
    return total * (1.0 / (elements - 1 if attrs["unbiased"] else elements))


def _variance_reference(attrs: Attrs, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    axes = normalize_axes(attrs["axis"], x.ndim, attrs["exclude"])
    squares = np.square(x.astype(np.float64) - mean)
    count = np.prod([x.shape[a] for a in axes]) - attrs["unbiased"]
    return np.asarray(squares.sum(axes, keepdims=attrs["keepdims"]) / count).astype(x.dtype)


register_composite(
    "variance",
    num_inputs=2,
    type_rule=_variance_type,
    expansion=_variance,
    reference=_variance_reference,
    follows=deviation,
    precision=Precision.NEVER,
    attributes={
        "axis": attr.axes(None),
        "keepdims": attr.flag(False),
        "exclude": attr.flag(False),
        "unbiased": attr.flag(False),
    },
)


def variance(
    data: Expr,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Expr | None = None,
) -> Call:
    """The mean squared distance from the mean over `axis`, divided by one less with `unbiased`.

    `with_mean` is the mean where it is known, with the reduced axes kept.
    """
    mean = reduce.mean(data, axis, True, exclude) if with_mean is None else with_mean
    return call("variance", data, mean, axis=axis, keepdims=keepdims, exclude=exclude, unbiased=unbiased)


# ---------------------------------------------------------------------------------------------------------- cumprod
def _cumprod_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    check_axis(attrs["axis"], data.ndim)
    return TensorType(data.shape, attrs["dtype"] or data.dtype)


def _cumprod_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    dtype = TensorType((), attrs["dtype"]).dtype.numpy if attrs["dtype"] else x.dtype
    axis = attrs["axis"] % x.ndim
    total = np.cumprod(x, axis, dtype=accumulator_dtype(str(np.dtype(dtype)))).astype(dtype)
    if not attrs["exclusive"]:
        return total
    ones = np.ones_like(np.take(total, [0], axis))
    return np.concatenate([ones, np.take(total, np.arange(x.shape[axis] - 1), axis)], axis)


register(
    "cumprod",
    num_inputs=1,
    type_rule=_cumprod_type,
    compute=with_attrs(topi.cumprod, "axis", "exclusive", "dtype"),
    pattern=OpPattern.OPAQUE,
    reference=_cumprod_reference,
    attributes={"axis": attr.optional(attr.integer()), "dtype": attr.dtype(""), "exclusive": attr.flag(False)},
)


def cumprod(data: Expr, axis: int | None = None, dtype: str = "", exclusive: bool = False) -> Call:
    """Running products along `axis` (of the flat data without one), without the element itself if `exclusive`."""
    flat = transform.reshape(data, (-1,)) if axis is None else data
    return call("cumprod", flat, axis=axis or 0, dtype=str(dtype), exclusive=exclusive)
