"""Operators on complex tensors, which are pairs of real ones: a table of converters of its own.

Where an operator does the same to both parts, the converter of real tensors is called for each; products are made of
those of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.frontend.builders.complex_numbers import (
    Complex,
    angle,
    as_type,
    conjugate,
    divide,
    exponential,
    logarithm,
    magnitude,
    multiply,
    of_last_axis,
    of_polar,
    of_real,
    power,
    scaled,
    square_root,
    to_last_axis,
    transformed,
)
from tilewright.frontend.builders.fourier import real_inverse, real_transform
from tilewright.frontend.idioms import broadcast_to, cast, constant, like, move_axis, rank_of, shape_of, swap_axes
from tilewright.frontend.signature import apply
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts_complex, find_converter
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: Arguments that say which elements, and are the same for both parts.
_POSITIONS = ("condition", "mask", "index", "indices", "repeats")
#: Arguments that are numbers of the tensor's own kind.
_NUMBERS = ("other", "value", "fill_value", "self")

#: Linear in all of their tensors: each part by itself.
_COMPONENTWISE = (
    "add", "sub", "rsub", "neg", "_neg_view", "sum", "mean", "cumsum", "alias", "clone", "contiguous", "detach",
    "lift_fresh", "lift_fresh_copy", "positive", "resolve_conj", "resolve_neg", "alias_copy", "detach_copy", "view",
    "view_copy", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "squeeze_copy", "unsqueeze",
    "unsqueeze_copy", "transpose_", "ravel", "view_as", "reshape_as", "_reshape_alias", "atleast_1d", "atleast_2d",
    "atleast_3d", "expand", "expand_copy", "expand_as", "broadcast_to", "broadcast_tensors", "permute",
    "permute_copy", "transpose", "transpose_copy", "swapaxes", "swapdims", "t", "t_copy", "numpy_T", "mT", "movedim",
    "moveaxis", "slice", "slice_copy", "slice_scatter", "select_scatter", "diagonal_scatter", "select", "select_copy",
    "narrow", "narrow_copy", "unbind", "unbind_copy", "split", "split_with_sizes", "split_copy",
    "split_with_sizes_copy", "chunk", "tensor_split", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk",
    "hsplit", "vsplit", "dsplit", "cat", "concat", "concatenate", "hstack", "vstack", "dstack", "column_stack",
    "stack", "flip", "fliplr", "flipud", "roll", "rot90", "repeat", "tile", "repeat_interleave", "diagonal",
    "diagonal_copy", "linalg_diagonal", "diag_embed", "diag", "unfold", "unfold_copy", "as_strided",
    "as_strided_copy", "as_strided_scatter", "constant_pad_nd", "tril", "triu", "trace", "index", "index_select",
    "index_put", "index_add", "index_copy", "index_fill", "gather", "scatter", "scatter_add", "take",
    "take_along_dim", "masked_fill", "masked_scatter", "where", "copy", "fill", "full", "full_like", "new_full",
    "zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
    "scalar_tensor", "block_diag", "lerp", "meshgrid", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "_to_copy", "to", "type_as", "squeeze_", "resize",
)  # fmt: skip

#: Linear in each of two tensors.
_PRODUCTS = {
    "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "matmul": ("self", "other"), "mv": ("self", "vec"),
    "dot": ("self", "tensor"), "outer": ("self", "vec2"), "ger": ("self", "vec2"), "kron": ("self", "other"),
    "inner": ("self", "other"), "linalg_vecdot": ("x", "y"), "vdot": ("self", "other"),
}  # fmt: skip


def as_complex(node: TorchNode, value: Any) -> Complex:
    """An operand as a complex tensor whose parts have the element type of the result."""
    if isinstance(value, Complex):
        return as_type(value, str(node.dtype))
    if isinstance(value, Expr):
        return of_real(cast(value, node.dtype))
    number = complex(value)
    return Complex(constant(number.real, node.dtype), constant(number.imag, node.dtype))


def _operand(node: TorchNode, name: str = "self") -> Complex:
    return as_complex(node, node[name])


def _part(value: Any, imaginary: bool, is_number: bool) -> Any:
    """The part of an argument that one of both calls gets."""
    if isinstance(value, list):
        return [_part(item, imaginary, is_number) for item in value]
    if isinstance(value, Complex):
        return value.imaginary if imaginary else value.real
    if isinstance(value, Expr):
        return op.zeros_like(value) if imaginary else value
    if isinstance(value, complex) or (is_number and isinstance(value, bool | int | float)):
        return complex(value).imag if imaginary else complex(value).real
    return value


@converts_complex(*(f"aten.{name}" for name in _COMPONENTWISE))
def convert_by_parts(node: TorchNode) -> Complex | list[Complex] | Expr:
    converter = find_converter(node.target)
    if converter is None:
        node.unsupported("this operator on complex numbers")
    made = []
    for imaginary in (False, True):
        given = {
            name: value if name in _POSITIONS else _part(value, imaginary, name in _NUMBERS)
            for name, value in node.arguments.items()
        }
        made.append(apply(converter, replace(node, arguments=given)))
        if not node.is_complex:  # a conversion to real numbers, which leaves the imaginary part out
            assert isinstance(made[0], Expr)
            return made[0]
    if isinstance(made[0], Expr) and isinstance(made[1], Expr):
        return Complex(made[0], made[1])
    return [Complex(*parts) for parts in zip(*made)]


@converts_complex("aten.ones", "aten.ones_like", "aten.new_ones", "aten.eye", "aten.arange", "aten.linspace")
def convert_real_creation(node: TorchNode) -> Complex:
    converter = find_converter(node.target)
    assert converter is not None
    given = {name: _part(value, False, False) for name, value in node.arguments.items()}
    made = apply(converter, replace(node, arguments=given))
    assert isinstance(made, Expr)
    return of_real(made)


# ------------------------------------------------------------------------------------------------------------- parts
@converts_complex("aten.real", "aten.imag")
def convert_part(node: TorchNode) -> Expr:
    value = _operand(node)
    return value.real if ".real" in node.target else value.imaginary


@converts_complex("aten.complex", "aten.polar")
def convert_complex(node: TorchNode) -> Complex:
    names = ("abs", "angle") if "polar" in node.target else ("real", "imag")
    first, second = (broadcast_to(node.tensor(name), node.shape) for name in names)
    return of_polar(first, second) if "polar" in node.target else Complex(first, second)


converts_complex.functions({
    "aten._conj aten.conj aten.conj_physical aten._conj_physical aten._conj_copy prims.conj_physical": (
        lambda node: conjugate(_operand(node))
    ),
    "aten.view_as_real aten.view_as_real_copy": lambda node: to_last_axis(_operand(node)),
    "aten.view_as_complex aten.view_as_complex_copy": lambda node: of_last_axis(node["self"]),
    "aten.abs": lambda node: magnitude(_operand(node)),
    "aten.angle": lambda node: angle(_operand(node)),
})  # fmt: skip


@converts_complex("aten.mH", "aten.adjoint", "aten.matrix_H")
def convert_adjoint(node: TorchNode) -> Complex:
    value = conjugate(_operand(node))
    return value.map(swap_axes)


@converts_complex("aten.linalg_vector_norm", "aten.norm", "aten.linalg_norm", "aten.linalg_matrix_norm")
def convert_norm(node: TorchNode) -> Any:
    """The norm of the absolute values, which is that of vectors and, of matrices, Frobenius's and those by sums."""
    name = "self" if "self" in node.arguments else "A"
    converter = find_converter(node.target)
    if converter is None or ("vector" not in node.target and node.get("ord") in ("nuc", 2, -2)):
        node.unsupported("this norm of complex numbers")
    return apply(converter, replace(node, arguments={**node.arguments, name: magnitude(node[name])}))


# -------------------------------------------------------------------------------------------------------- arithmetic
@converts_complex("aten.mul", "aten.multiply", "aten.square")
def convert_mul(node: TorchNode) -> Complex:
    """The product of elements; by a real factor, both parts times it."""
    first = _operand(node)
    if "square" in node.target:
        return multiply(first, first)
    for one, other in ((node["self"], node["other"]), (node["other"], node["self"])):
        if not isinstance(other, Complex | complex):
            factor = node.as_tensor(other)
            return Complex(*(part * factor for part in as_complex(node, one).parts))
    return multiply(first, _operand(node, "other"))


@converts_complex("aten.div", "aten.divide", "aten.true_divide")
def convert_div(node: TorchNode) -> Complex:
    if node.get("rounding_mode"):
        node.unsupported("rounding of complex numbers")
    if not isinstance(node["other"], Complex | complex):
        divisor = node.as_tensor(node["other"])
        return Complex(*(part / divisor for part in _operand(node).parts))
    return divide(*(_whole(node, _operand(node, name)) for name in ("self", "other")))


def _whole(node: TorchNode, value: Complex) -> Complex:
    """A number as a tensor of the result's shape."""
    return Complex(*(broadcast_to(part, node.shape) for part in value.parts))


@converts_complex(*(f"aten.{name}" for name in _PRODUCTS))
def convert_product(node: TorchNode) -> Complex:
    name = node.target.split(".")[1]
    converter = find_converter("aten.dot.default" if name == "vdot" else node.target)
    if converter is None:
        node.unsupported("this operator on complex numbers")
    first, second = (_operand(node, operand) for operand in _PRODUCTS[name])
    if "vec" in name or name == "vdot":
        first = conjugate(first) if name in ("vdot", "linalg_vecdot") else first

    def times(left: Expr, right: Expr) -> Expr:
        given = {**node.arguments, **dict(zip(_PRODUCTS[name], (left, right)))}
        if name == "vdot":
            given["tensor"] = right
        made = apply(converter, replace(node, arguments=given))
        assert isinstance(made, Expr)
        return made

    real = times(first.real, second.real) - times(first.imaginary, second.imaginary)
    return Complex(real, times(first.real, second.imaginary) + times(first.imaginary, second.real))


# --------------------------------------------------------------------------------------------------------- functions
def _one(value: Complex) -> Complex:
    return Complex(like(1, value.real), like(0, value.real))


def _plus(a: Complex, b: Complex) -> Complex:
    return Complex(a.real + b.real, a.imaginary + b.imaginary)


def _reciprocal(value: Complex) -> Complex:
    return divide(Complex(op.ones_like(value.real), op.zeros_like(value.real)), value)


def _turned(value: Complex) -> Complex:
    """i times the number."""
    return Complex(-value.imaginary, value.real)


def _sinh(value: Complex) -> Complex:
    return Complex(op.sinh(value.real) * op.cos(value.imaginary), op.cosh(value.real) * op.sin(value.imaginary))


def _cosh(value: Complex) -> Complex:
    return Complex(op.cosh(value.real) * op.cos(value.imaginary), op.sinh(value.real) * op.sin(value.imaginary))


def _sin(value: Complex) -> Complex:
    made = _sinh(_turned(value))  # i sin x
    return Complex(made.imaginary, -made.real)


def _sgn(value: Complex) -> Complex:
    size = magnitude(value)
    zero = like(0, value.real)
    size = op.where(op.equal(size, zero), op.ones_like(size), size)
    return Complex(value.real / size, value.imaginary / size)


_FUNCTIONS: dict[str, Callable[[Complex], Complex]] = {
    "exp": exponential, "exp2": lambda value: exponential(scaled(value, math.log(2))),
    "expm1": lambda value: Complex(exponential(value).real - 1, exponential(value).imaginary), "log": logarithm,
    "log2": lambda value: logarithm(value, 2), "log10": lambda value: logarithm(value, 10),
    "log1p": lambda value: logarithm(_plus(value, _one(value))), "sqrt": square_root,
    "rsqrt": lambda value: _reciprocal(square_root(value)), "reciprocal": _reciprocal, "sgn": _sgn, "sinh": _sinh,
    "cosh": _cosh, "tanh": lambda value: divide(_sinh(value), _cosh(value)), "sin": _sin,
    "cos": lambda value: _cosh(_turned(value)), "tan": lambda value: divide(_sin(value), _cosh(_turned(value))),
    "sigmoid": lambda value: _reciprocal(_plus(_one(value), exponential(scaled(value, -1)))),
}  # fmt: skip


@converts_complex(*(f"aten.{name}" for name in _FUNCTIONS))
def convert_function(node: TorchNode) -> Complex:
    return _FUNCTIONS[node.target.split(".")[1]](_operand(node))


@converts_complex("aten.pow")
def convert_pow(node: TorchNode) -> Complex:
    exponent = node["exponent"]
    if isinstance(exponent, int | float) and exponent in (1, 2, 3, 4, -1):
        base = _operand(node)
        made = base
        for _ in range(int(abs(exponent)) - 1):
            made = multiply(made, base)
        return made if exponent > 0 else _reciprocal(made)
    return power(*(_whole(node, _operand(node, name)) for name in ("self", "exponent")))


# --------------------------------------------------------------------------------------------------------- questions
@converts_complex("aten.eq", "aten.ne")
def convert_equal(node: TorchNode) -> Expr:
    kind = str(node.common_type("self", "other"))
    pairs = [_typed(node[name], kind).parts for name in ("self", "other")]
    same = op.logical_and(*(op.equal(first, second) for first, second in zip(*pairs)))
    return same if ".eq" in node.target else op.logical_not(same)


def _typed(value: Any, kind: str) -> Complex:
    if isinstance(value, Complex):
        return as_type(value, kind)
    if isinstance(value, Expr):
        return of_real(cast(value, kind))
    return Complex(constant(complex(value).real, kind), constant(complex(value).imag, kind))


@converts_complex("aten.isnan", "aten.isinf", "aten.isfinite", "aten.isreal")
def convert_kind(node: TorchNode) -> Expr:
    value: Complex = node["self"]
    if "isreal" in node.target:
        return op.equal(value.imaginary, 0)
    question = {"isnan": op.isnan, "isinf": op.isinf, "isfinite": op.isfinite}[node.target.split(".")[1]]
    join = op.logical_and if "isfinite" in node.target else op.logical_or
    return join(question(value.real), question(value.imaginary))


# -------------------------------------------------------------------------------------------------------- transforms
def _normalized(node: TorchNode, extents: list[Any]) -> float:
    """The factor of a transform over these extents: 1, one over the root of their product, or one over it."""
    if any(not isinstance(extent, int) for extent in extents):
        node.unsupported("a transform of a size that is not fixed")
    count = math.prod(extents)
    return (1.0, 1 / math.sqrt(count), 1 / count)[int(node.get("normalization", 0))]


@converts_complex("aten._fft_c2c", "prims.fft_c2c")
def convert_c2c(node: TorchNode) -> Complex:
    value = _operand(node)
    axes = [node.axis(axis, rank_of(value.real)) for axis in node["dim"]]
    scale = _normalized(node, [shape_of(value.real)[axis] for axis in axes])
    return transformed(value, axes, not node["forward"], scale)


@converts_complex("aten._fft_r2c", "prims.fft_r2c")
def convert_r2c(node: TorchNode) -> Complex:
    """Of real signals: along the last axis of those given one half of the lines is made, or all."""
    data = node["self"]
    axes = [node.axis(axis, rank_of(data)) for axis in node["dim"]]
    scale = _normalized(node, [shape_of(data)[axis] for axis in axes])
    if not node["onesided"]:
        return transformed(of_real(data), axes, False, scale)
    last = axes.pop()
    extent = shape_of(data)[last]
    parts = real_transform(move_axis(data, last, rank_of(data) - 1), extent)
    half = Complex(*(move_axis(part, rank_of(data) - 1, last) for part in parts))
    return transformed(half, axes, False, scale)


@converts_complex("aten._fft_c2r", "prims.fft_c2r")
def convert_c2r(node: TorchNode) -> Expr:
    """The real signal of one half of the lines, along the last axis; along others as of complex signals."""
    value, length = _operand(node), node["last_dim_size"]
    axes = [node.axis(axis, rank_of(value.real)) for axis in node["dim"]]
    last = axes.pop()
    scale = _normalized(node, [*(shape_of(value.real)[axis] for axis in axes), length])
    value = transformed(value, axes, True, scale * length)
    real, imaginary = (move_axis(part, last, rank_of(part) - 1) for part in value.parts)
    return move_axis(real_inverse(real, imaginary, length), rank_of(real) - 1, last)
