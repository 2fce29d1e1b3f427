"""Random tensors of every element type: plain numbers, and the values at which arithmetic goes wrong."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto as T
from onnx import TypeProto, helper

Array = np.ndarray[Any, Any]

FLOATS = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)
SIGNED = (T.INT8, T.INT16, T.INT32, T.INT64)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
INTEGERS = SIGNED + UNSIGNED
#: Types that are moved, cast, quantized and dequantized, and not computed with.
NARROW = (
    T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ, T.FLOAT8E8M0, T.FLOAT4E2M1,
    T.INT4, T.UINT4, T.INT2, T.UINT2,
)  # fmt: skip
#: Every element type of a tensor but the complex ones, which Tilewright does not have (docs/onnx.md).
ELEMENTS = (*FLOATS, *INTEGERS, T.BOOL, T.STRING, *NARROW)
#: Element types whose arrays are NumPy's own.
PLAIN = (T.FLOAT, T.DOUBLE, T.FLOAT16, *INTEGERS, T.BOOL, T.STRING)

#: What the elements of a leaf are like: `special` has NaN, infinities, denormals and the ends of the range.
KINDS = ("small", "small", "small", "unit", "positive", "whole", "special")
_WORDS = ("", "a", "b", "ab", "Ab c", "the", "x,y", "a b c", "10", "-3", "ß", "日本", " a ")


def numpy_type(element: int) -> np.dtype[Any]:
    """The array type of an ONNX element type; strings are objects."""
    return np.dtype(object) if element == T.STRING else helper.tensor_dtype_to_np_dtype(element)


def element_of(array: Array) -> int:
    """The ONNX element type of an array."""
    return T.STRING if array.dtype.kind in "OUST" else helper.np_dtype_to_tensor_dtype(array.dtype)


def type_text(element: int) -> str:
    """The type of tensors of an element type as schemas write it: `tensor(float)`."""
    return f"tensor({T.DataType.Name(element).lower()})"


def is_float(element: int) -> bool:
    """True if elements have fractions, narrow ones included."""
    return T.DataType.Name(element).startswith(("FLOAT", "DOUBLE", "BFLOAT"))


def type_proto(element: int, shape: tuple[int | str | None, ...] | None, kind: str = "tensor") -> TypeProto:
    """The ONNX type of a tensor, of a sequence of such tensors, or of an optional one."""
    tensor = helper.make_tensor_type_proto(element, shape)
    if kind == "sequence":
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
    return helper.make_optional_type_proto(tensor) if kind == "optional" else tensor


def _special_floats(element: int) -> Array:
    """The values of a float type at which functions and formats end, those that it has."""
    dtype = numpy_type(element)
    info = ml_dtypes.finfo(dtype)
    named = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, -1e3, 65504.0, 1e-3, 88.0, -104.0]
    ends = [info.max, info.min, info.tiny, info.smallest_subnormal, info.eps]
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(named).astype(dtype), np.array(ends, dtype)])


def draw_floats(rng: random.Random, element: int, count: int, kind: str) -> Array:
    """`count` floats of an element type."""
    if kind == "special":
        found = _special_floats(element)
        return found[[rng.randrange(len(found)) for _ in range(count)]]
    draw = {
        "small": lambda: rng.gauss(0, 2),
        "unit": lambda: rng.uniform(-1, 1),
        "positive": lambda: rng.uniform(0.1, 3),
        "whole": lambda: float(rng.randint(-4, 6)),
    }[kind]
    with np.errstate(all="ignore"):
        return np.array([draw() for _ in range(count)], np.float64).astype(numpy_type(element))


def bounds(element: int) -> tuple[int, int]:
    """The least and the greatest integer of an integer type."""
    info = ml_dtypes.iinfo(numpy_type(element))
    return int(info.min), int(info.max)


def draw_array(rng: random.Random, element: int, shape: tuple[int, ...], kind: str | None = None) -> Array:
    """A random tensor; `kind` is one of `KINDS`, by default any."""
    kind = kind or rng.choice(KINDS)
    count = int(np.prod(shape, dtype=np.int64))
    if element == T.STRING:
        flat = np.array([rng.choice(_WORDS) for _ in range(count)], object)
    elif element == T.BOOL:
        flat = np.array([rng.random() < 0.5 for _ in range(count)], bool)
    elif is_float(element):
        flat = draw_floats(rng, element, count, kind)
    else:
        least, greatest = bounds(element)
        low, high = (1, 4) if kind == "positive" else (-5, 9)
        ends = [least, least + 1, greatest, greatest - 1, 0, 1]
        drawn = [rng.choice(ends) if kind == "special" else rng.randint(low, high) for _ in range(count)]
        flat = np.array([min(max(value, least), greatest) for value in drawn], dtype=object).astype(numpy_type(element))
    return flat.reshape(shape)
