"""The signature of a compiled model: names, shapes and dtypes, and the check of a caller's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.dlpack import import_array
from tilewright.runtime.memory import Array
from tilewright.runtime.tensor import Tensor
from tilewright.support.dtype import DType


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a compiled model.

    A dimension is its size, the text of a symbolic one ("H", "H // 2 + 1"), or None where only a run can tell.
    """

    name: str
    shape: tuple[int | str | None, ...]
    dtype: DType

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> TensorSpec:
        """From a manifest's `{"name":, "shape":, "dtype":}`. Raises TypeError or KeyError for anything else."""
        name, shape, dtype = entry["name"], entry["shape"], entry["dtype"]
        if not isinstance(name, str) or not isinstance(dtype, str):
            raise TypeError(f"name and dtype must be texts; got {name!r} and {dtype!r}")
        if shape is None:
            return ValueSpec(name, (), DType("handle"), dtype)
        if not all(dim is None or isinstance(dim, str) or (isinstance(dim, int) and dim >= 0) for dim in shape):
            raise TypeError(f"no shape of a tensor: {shape!r}")
        return cls(name, tuple(int(d) if isinstance(d, int) else d for d in shape), DType(dtype))

    def to_json(self) -> dict[str, Any]:
        """Plain data for a manifest."""
        return {"name": self.name, "shape": list(self.shape), "dtype": str(self.dtype)}

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.dtype.numpy

    @cached_property
    def is_static(self) -> bool:
        """True if every dimension is known."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a tensor whose dimensions are all known; an assertion error for others."""
        assert self.is_static
        return self.shape  # type: ignore[return-value]

    @property
    def nbytes(self) -> int:
        """The bytes of a tensor whose dimensions are all known; an assertion error for others."""
        return math.prod(self.static_shape) * self.numpy.itemsize

    def fits(self, shape: tuple[int, ...]) -> bool:
        """True if an array of `shape` may be given here; sizes that depend on each other are checked elsewhere."""
        if self.is_static:
            return shape == self.shape
        return len(shape) == len(self.shape) and all(
            size == dim for size, dim in zip(shape, self.shape) if isinstance(dim, int)
        )

    @property
    def type_text(self) -> str:
        """``float32[1, 3, H, W]``; a dimension that only a run can tell is a question mark."""
        return f"{self.dtype}[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text}"


@dataclass(frozen=True)
class ValueSpec(TensorSpec):
    """An input or output that is no tensor of known rank: a sequence, an optional; `type` names its type.

    `shape` and `dtype` say nothing.
    """

    type: str = ""

    @property
    def type_text(self) -> str:
        """The name of the type."""
        return self.type

    def to_json(self) -> dict[str, Any]:
        """Plain data for a manifest: no shape, and the type for the dtype."""
        return {"name": self.name, "shape": None, "dtype": self.type}


def describe(specs: Sequence[TensorSpec]) -> str:
    """``x: float32[1, 3, 224, 224], mask: bool[1]``, as messages list them."""
    return ", ".join(str(spec) for spec in specs) or "nothing"


#: Makes of a value for an input what a program takes, as `bind` does: value, its spec, all specs.
Bind = Callable[[Any, TensorSpec, Sequence[TensorSpec]], Any]


def by_position(values: Sequence[Any], specs: Sequence[TensorSpec], make: Bind | None = None) -> list[Array]:
    """The positional arguments of a call as arrays fit for compiled code, each by `make` (`bind`).

    Raises `InputError`.
    """
    make = make or bind
    if len(values) != len(specs):
        raise InputError(f"the model takes {len(specs)} inputs, {len(values)} given; it expects {describe(specs)}")
    return [make(value, spec, specs) for value, spec in zip(values, specs)]


def by_name(values: Mapping[str, Any], specs: Sequence[TensorSpec], make: Bind | None = None) -> list[Array]:
    """Named inputs as arrays in the model's order, each by `make` (`bind`).

    Raises `InputError` for a missing or unknown name.
    """
    make = make or bind
    if not isinstance(values, Mapping):
        raise InputError(f"inputs must be a mapping from name to array, not {type(values).__name__}")
    arrays = []
    for spec in specs:
        if spec.name not in values:
            raise InputError(f"input {spec.name!r} is missing; the model expects {describe(specs)}")
        arrays.append(make(values[spec.name], spec, specs))
    if len(values) > len(specs):
        known = {spec.name for spec in specs}
        unknown = ", ".join(repr(name) for name in values if name not in known)
        raise InputError(f"the model has no input {unknown}; it expects {describe(specs)}")
    return arrays


def checked_outputs(
    given: Sequence[Any], specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """The arrays of a caller that results of these `shapes` are written to.

    Raises `InputError` unless they are one for each output, fit it, are writable and C-contiguous.
    """
    if len(given) != len(specs):
        raise InputError(f"{len(given)} output arrays given, the model has {describe(specs)}")
    arrays = []
    for array, spec, shape in zip(given, specs, shapes):
        checked = bind(array, TensorSpec(spec.name, tuple(shape), spec.dtype), specs)
        if checked is not array or not array.flags.writeable:
            raise InputError(f"output {spec.name!r} must be filled into a writable, C-contiguous NumPy array")
        arrays.append(checked)
    return arrays


def bind(value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Array:
    """`value` as a C-contiguous array of the dtype and shape of `spec`; copied only where its layout demands it.

    NumPy arrays, `Tensor`s, anything with DLPack or the buffer protocol; numbers and lists are converted to the dtype.
    Raises `InputError` naming the input, what came and what is expected.
    """
    if isinstance(spec, ValueSpec):
        return _host_value(value, spec)
    array = as_array(value, spec)
    if array.dtype != spec.numpy or not spec.fits(array.shape):
        raise wrong_type(array, spec, specs)
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        return np.array(array, order="C", copy=True)
    return array


def wrong_type(array: Any, spec: TensorSpec, specs: Sequence[TensorSpec]) -> InputError:
    """The error for an array of another dtype or shape than its input's."""
    wrong = "dtype" if array.dtype != spec.numpy else "shape"
    others = f" (the model expects {describe(specs)})" if len(specs) > 1 else ""
    return InputError(
        f"input {spec.name!r} has the wrong {wrong}: {array.dtype}{list(array.shape)} given, "
        f"{spec.type_text} expected{others}"
    )


def _host_value(value: Any, spec: ValueSpec) -> Any:
    """A value for host operators, of the type that `spec` tells. Raises `InputError` for one of another type."""
    try:
        return _of_type(value, spec.type)
    except (TypeError, ValueError, AttributeError, BufferError, RuntimeError) as error:
        raise InputError(f"input {spec.name!r} is no {spec.type}: {error}") from None


def _of_type(value: Any, type_: str) -> Any:
    """`value` as the type with that text: arrays from whatever holds numbers, lists of such, None for what may lack."""
    kind, _, inner = type_.removesuffix("]").partition("[")
    if kind == "Optional":
        return None if value is None else _of_type(value, inner)
    if kind == "Sequence":
        if not isinstance(value, list | tuple):
            raise TypeError(f"a {type(value).__name__} is no list")
        return [_of_type(item, inner) for item in value]
    if kind not in ("AnyRank", "Tensor"):
        return _arrays(value)
    dtype = DType(inner.rpartition(" ")[2]).numpy
    if isinstance(value, str | bool | int | float | list | tuple):
        return np.asarray(value, dtype)
    array = Tensor.from_dlpack(value).numpy() if not isinstance(value, np.ndarray | np.generic) else np.asarray(value)
    if array.dtype != dtype:
        raise TypeError(f"its elements are {array.dtype}, not {dtype}")
    return array


def _arrays(value: Any) -> Any:
    """A value of a type of the program's own, such as a tuple, with arrays for what holds numbers."""
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, list | tuple):
        return [_arrays(item) for item in value]
    if isinstance(value, str | bool | int | float | np.generic):
        return np.asarray(value, object if isinstance(value, str) else None)
    return Tensor.from_dlpack(value).numpy() if hasattr(value, "__dlpack__") else value


def as_array(value: Any, spec: TensorSpec) -> Array:
    """`value` as a NumPy array, sharing its memory where it has any. Raises InputError for what is no array."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, Tensor):
        return value.numpy()
    try:
        if isinstance(value, (bool, int, float, list, tuple)):
            return np.asarray(value, dtype=spec.numpy)
        if isinstance(value, np.generic | np.ndarray):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return import_array(value)
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        if isinstance(value, Mapping):
            raise InputError(
                f"input {spec.name!r}: a {type(value).__name__} is no array; call a model with an array an input, "
                f"in order, or executable.run({{{spec.name!r}: array}}) with arrays by name"
            ) from None
        raise InputError(
            f"input {spec.name!r}: a {type(value).__name__} cannot be used as {spec.type_text} ({error})"
        ) from None
