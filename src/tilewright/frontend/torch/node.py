"""One call of an ATen operator as its converter sees it: arguments by the schema's names, the result's type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tilewright.errors import UnsupportedError
from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, reshape, shape_of
from tilewright.frontend.torch.types import Sizes, is_static, part_type
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.onnx_host import host_call
from tilewright.support.dtype import DType

#: Axes of a tensor in order, which a signature counts from the front.
Axes = tuple[int, ...]


@dataclass
class TorchNode:
    """Arguments are Relay expressions where they are tensors, dimensions where they are symbolic integers.

    `arguments` has every argument of the operator's schema, those that are not given with their defaults. `value` is
    PyTorch's own (fake) result: its element type is that of torch's rules of promotion, its shape what the
    operator's meta function says.
    """

    name: str
    target: str  # such as aten.add.Tensor
    arguments: dict[str, Any]
    metas: dict[str, Any]
    value: Any
    sizes: Sizes = field(repr=False)
    draws: Any = field(default=None, repr=False)  # what random numbers come from: `random_numbers.Draws`
    unread: frozenset[int] = frozenset()  # those of several results that nothing reads
    checked: bool = False  # PyTorch raises where its `info` is not 0
    wide: bool = False  # results that are floats of 16 bits are to be made in float32

    @property
    def label(self) -> str:
        """The node as messages name it."""
        return f"{self.target} ({self.name})"

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or `default` where this overload has none of that name."""
        return self.arguments.get(name, default)

    @property
    def dtype(self) -> DType:
        """The element type of the (first) result."""
        return self.dtype_at(None)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents of the (first) result."""
        return self.shape_at(None)

    def dtype_at(self, index: int | None) -> DType:
        """The element type of one of several results; of complex numbers that of their parts."""
        dtype = part_type(self._value(index).dtype, self.label)
        return DType("float32") if self.wide and dtype.is_float and dtype.bits == 16 else dtype

    def shape_at(self, index: int | None) -> tuple[Any, ...]:
        """The extents of one of several results."""
        return self.sizes.shape(self._value(index), self.label)

    def _value(self, index: int | None) -> Any:
        return self.value[index or 0] if isinstance(self.value, tuple | list) else self.value

    @property
    def is_complex(self) -> bool:
        """True where the (first) result is complex."""
        return bool(self._value(None).dtype.is_complex)

    def spread(self, value: Expr, index: int | None = None) -> Expr:
        """`value` broadcast to the shape of the (first) result, also where a run finds sizes of it."""
        shape = self.shape_at(index)
        return broadcast_to(value, shape) if AnyDim() not in shape else self._in_shape("Expand", value, index)

    def reshaped(self, value: Expr, index: int | None = None) -> Expr:
        """The elements of `value` in the shape of the (first) result, also where a run finds sizes of it."""
        shape = self.shape_at(index)
        unknown = [isinstance(extent, AnyDim) for extent in shape]
        if not any(unknown):
            return reshape(value, shape)
        rest = [extent for extent in shape if not isinstance(extent, AnyDim)]
        if sum(unknown) == 1 and is_static(rest) and 0 not in rest:
            return reshape(value, [-1 if isinstance(extent, AnyDim) else extent for extent in shape])
        return self._in_shape("Reshape", value, index, allowzero=1)

    def _in_shape(self, name: str, value: Expr, index: int | None, **options: Any) -> Expr:
        extents = [extent if isinstance(extent, int) else extent.node.expr for extent in self._value(index).shape]
        sizes = concatenate([reshape(self.sizes.of_run(extent, self.label), (1,)) for extent in extents], 0)
        dtype = tensor_type_of(value).dtype
        return host_call(name, [value, sizes], TensorType(self.shape_at(index), dtype), **options)

    def steps(self, axis: int) -> Expr:
        """0, 1, … along an axis of the (first) result, as a vector of int64, also where a run finds its extent."""
        extent = self._value(None).shape[axis]
        dim = self.sizes.dim(extent, self.label)
        if isinstance(dim, AnyDim):
            count = self.sizes.of_run(extent.node.expr, self.label)
            begin, step = constant(0, "int64"), constant(1, "int64")
            return host_call("Range", [begin, count, step], TensorType((dim,), "int64"))
        return op.cumsum(broadcast_to(constant(1, "int64"), (dim,)), axis=0) - 1

    def tensor(self, name: str, dtype: str | DType | None = None) -> Expr:
        """A tensor or number as an expression, in `dtype` (default: that of the result)."""
        return self.as_tensor(self.arguments[name], dtype)

    def as_tensor(self, value: Any, dtype: str | DType | None = None) -> Expr:
        """As `tensor`, of a value."""
        target = self.dtype if dtype is None else DType(dtype)
        if isinstance(value, Expr):
            return cast(value, target)
        if isinstance(value, bool | int | float):
            return constant(value, target)
        if isinstance(value, AnyDim):
            self.unsupported("a size that a run would have to find")
        ones = broadcast_to(constant(1, "int64"), (value,))  # a size: as many ones, summed
        return cast(op.sum(ones, axis=(0,)), target)

    def operand(self, name: str, index: int, optional: bool) -> Any:
        """The argument `name`, or where the overload has none of that name the one at position `index`."""
        if name in self.arguments or optional:
            return self.arguments.get(name)
        return list(self.arguments.values())[index]

    def typed(self, value: Any) -> Expr:
        """A tensor or number in the element type of the (first) result."""
        return self.as_tensor(value)

    def attribute(self, name: str) -> Any:
        """The argument `name`, or None where it is not given."""
        return self.arguments.get(name)

    def default(self, value: Any) -> Any:
        """The default of an argument that the overload has not."""
        return value

    def common_type(self, *names: str) -> DType:
        """The element type in which torch computes with these arguments; for results that are of another type."""
        # torch is optional
        import torch

        first = self.metas[names[0]]
        for name in names[1:]:
            first = torch.empty((), dtype=torch.result_type(first, self.metas[name]), device="meta")
        return part_type(first.dtype, self.label)

    def axis(self, axis: Any, rank: int | None = None) -> int:
        """`axis` of the tensor `self` (or one of `rank` axes) counted from the front; scalars have the axis 0 too."""
        rank = len(shape_of(self.arguments["self"])) if rank is None else rank
        return int(axis) % max(rank, 1)

    def every_axis(self, axes: Sequence[Any]) -> Axes:
        """`axes` of the tensor `self` counted from the front, in order; all where none are given."""
        rank = len(shape_of(self.arguments["self"]))
        return tuple(sorted(self.axis(axis, rank) for axis in axes) if axes and rank else range(rank))

    def pair(self, name: str, count: int = 2, default: Any = None) -> tuple[int, ...]:
        """An argument for each of `count` spatial axes, where one number stands for all."""
        given = self.get(name)
        if given is None or (isinstance(given, Sequence) and not given):
            given = default
        listed = [given] if isinstance(given, int) else list(given)
        return tuple(listed * count if len(listed) == 1 else listed)

    def bad(self, reason: str) -> NoReturn:
        """Raise `UnsupportedError` for an argument that is no number where one is needed."""
        raise UnsupportedError(f"{self.label}: {reason}")

    def unsupported(self, what: str) -> NoReturn:
        """Raise `UnsupportedError` naming the node."""
        raise UnsupportedError(f"{self.label}: {what} is not supported")
