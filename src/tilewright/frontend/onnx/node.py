"""One ONNX node as a converter sees it: Relay inputs with known types, typed attributes, clear errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, TypeProto

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.graph_node import NodeInputs
from tilewright.frontend.graph_walk import Unavailable
from tilewright.frontend.idioms import broadcast_to
from tilewright.frontend.onnx.dims import broadcast, is_known, is_one
from tilewright.frontend.onnx.schema import type_from_proto
from tilewright.frontend.onnx.tensors import array_of, dense_array_of
from tilewright.relay import op
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar
from tilewright.relay.ir.type import Type, as_dim
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.simplify.make import is_call
from tilewright.support.dtype import DType

# Attributes that say how to train or which kernel to prefer; they do not change what inference computes.
_WITHOUT_EFFECT = frozenset({"consumed_inputs", "is_test", "momentum", "spatial", "seed", "stash_type", "name"})


def is_quantized_weight(value: Any) -> bool:
    """True for a constant matrix or kernel of bytes being dequantized: it stays as it is, for products of integers."""
    if not isinstance(value, Call) or not is_call(value, "qnn.dequantize"):
        return False
    data = value.args[0]
    constant = all(isinstance(arg, Constant) for arg in value.args)
    return constant and tensor_type_of(data).ndim >= 2 and tensor_type_of(data).dtype in ("int8", "uint8")


class NeedsValue(UnsupportedError):
    """A converter needs the value of an input that is computed at run time; the host may still run the node."""


Environment = dict[str, "Expr | Unavailable"]


class Importer:
    """The state shared by the nodes of one model while it is imported.

    `declared` holds the types that the model states, by name of the value, `symbols` its symbolic extents by name,
    `symbolic` what is known of the elements of shape tensors, and `functions` the loops, as functions of the module.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.declared: dict[str, Any] = {}
        self.symbols: dict[str, Any] = {}
        self.symbolic: dict[Expr, np.ndarray] = {}
        self.functions: dict[GlobalVar, Function] = {}
        self._loops = 0

    def count_loop(self) -> int:
        """A number that no other loop of the model has."""
        self._loops += 1
        return self._loops

    def subgraph(
        self, graph: Any, node: OnnxNode, inputs: Mapping[str, Expr] | None = None, env: Environment | None = None
    ) -> list[Expr | None]:
        """The outputs of a graph-valued attribute, converted in place; it sees `env`, by default the names around it.

        None stands for an output that cannot be converted.
        """
        raise NotImplementedError


class OnnxNode(NodeInputs):
    """A node being converted.

    Attributes are read through `attr`; one that is present but never read is reported as unsupported after the
    conversion, so that an attribute of a newer operator set is never dropped in silence.
    """

    def __init__(
        self, proto: Any, label: str, span: str, opset: int, inputs: list[Expr | None], importer: Importer,
        env: Environment, opsets: Mapping[str, int],
    ) -> None:  # fmt: skip
        super().__init__(label, inputs)
        self.proto = proto
        self.op_type: str = proto.op_type
        self.span = span
        self.opset = opset
        self.importer = importer
        self.env = env
        self.opsets = opsets
        self._attributes: dict[str, Any] = {entry.name: entry for entry in proto.attribute}
        self._read: set[str] = set()

    @property
    def operator(self) -> str:
        """The operator with its domain and version."""
        return f"{self.proto.domain}.{self.op_type} {self.opset}"

    # Inputs

    def dtype(self, value: int | Expr = 0) -> DType:
        """Element type of an input (by index) or of any expression."""
        return tensor_type_of(self[value] if isinstance(value, int) else value).dtype

    def array(self, index: int) -> np.ndarray | None:
        """The value of input `index` if it is known at import time, else None."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, Call) and is_quantized_weight(value):
            return np.asarray(call_reference(value, [arg.data for arg in value.args]))  # type: ignore[attr-defined]
        return value.data if isinstance(value, Constant) else None

    def static(self, index: int, what: str) -> np.ndarray:
        """The value of input `index`, which must be known at import time; `what` names it in the error."""
        self[index]
        value = self.array(index)
        if value is None:
            raise NeedsValue(
                f"{self.label}: its {what} (input {index}, {self.proto.input[index]!r}) is computed at run time; "
                "Tilewright needs it at compile time"
            )
        return value

    def dims(self, index: int, what: str) -> list[Any]:
        """An integer-vector input as a list of integers and expressions over the symbolic extents.

        Raises `NeedsValue` where not even that is known at import time.
        """
        self[index]
        known = self.importer.symbolic.get(self[index])
        if known is not None and is_known(known.reshape(-1)):
            return list(known.reshape(-1))
        return self.ints(index, what)

    def ints(self, index: int, what: str) -> list[int]:
        """A static integer-vector input as a list."""
        return [int(value) for value in self.static(index, what).reshape(-1)]

    def optional_ints(self, index: int, what: str) -> list[int] | None:
        """A static integer-vector input as a list, or None when the optional input is absent."""
        return self.ints(index, what) if self.has(index) else None

    def named_axis(self, default: int, rank: int | None = None, name: str = "axis") -> int:
        """The attribute `axis` made non-negative for `rank` (default: that of input 0)."""
        return self.axis(int(self.attr(name, default)), rank)

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Each of `axes` counted from the front."""
        return [self.axis(int(axis), rank) for axis in axes]

    def numbers(self, name: str, index: int) -> list[int] | None:
        """Whole numbers: the attribute `name` of older opsets, the input `index` of later ones; None without either."""
        given = self.attr(name)
        return self.optional_ints(index, name) if given is None else given

    def wants(self, output: int) -> bool:
        """True when output `output` is named, that is, may be used."""
        return output < len(self.proto.output) and self.proto.output[output] != ""

    # Attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute as int, float, str, list or array; `default` when the node does not carry it.

        A default that is a float is rounded to float32, the type in which the format holds it.
        """
        self._read.add(name)
        entry = self._attributes.get(name)
        return self.default(default) if entry is None else self._decode(entry)

    def attribute(self, name: str) -> Any:
        """As `NodeInputs`."""
        return self.attr(name)

    def default(self, value: Any) -> Any:
        """The default of an attribute; a float is rounded to float32, the type in which the format holds it."""
        return float(np.float32(value)) if isinstance(value, float) else value

    def require(self, name: str) -> Any:
        """The attribute, whose absence is a `ModelError`."""
        value = self.attr(name)
        if value is None:
            raise ModelError(f"{self.label} lacks its required attribute {name!r}")
        return value

    def per_axis(self, name: str, default: int, count: int) -> list[int]:
        """An attribute with one number for each of `count` positions; `default` for all when it is absent or empty."""
        values = self.attr(name) or [default] * count
        if not isinstance(values, list) or len(values) != count:
            raise ModelError(f"{self.label}: attribute {name}={values!r} should hold {count} numbers")
        return values

    def choice(self, name: str, default: Any, known: Sequence[Any]) -> Any:
        """The attribute, which must be one of `known`."""
        value = self.attr(name, default)
        if value not in known:
            self.unsupported(f"attribute {name}={value!r}; supported: {', '.join(map(repr, known))}")
        return value

    def ignore(self, *names: str) -> None:
        """Declare attributes that do not change the result here."""
        self._read.update(names)

    def unread(self) -> list[str]:
        """Attributes that are present and that the converter has not looked at."""
        return [name for name in self._attributes if name not in self._read and name not in _WITHOUT_EFFECT]

    def declared(self, name: str) -> Type | None:
        """The type that the model declares for the value called `name`, or None."""
        proto = self.importer.declared.get(name)
        return None if proto is None else type_from_proto(proto, f"value {name!r}", self.importer.symbols)

    def plain_attributes(self) -> dict[str, Any]:
        """All attributes as plain data: tensors as lists, with their dtype under NAME_dtype."""
        plain: dict[str, Any] = {}
        for name in self._attributes:
            value = self.attr(name)
            if isinstance(value, TypeProto):
                continue
            if isinstance(value, np.ndarray):
                plain[f"{name}_dtype"] = str(DType(value.dtype))
                value = value.reshape(-1).tolist() if value.size != 1 else value.reshape(-1)[0].item()
            plain[name] = value
        return plain

    def _decode(self, entry: Any) -> Any:
        decode = _DECODERS.get(entry.type)
        if decode is None:
            self.unsupported(f"attribute {entry.name!r} of type {AttributeProto.AttributeType.Name(entry.type)}")
        return decode(self, entry)

    def _tensor(self, entry: Any) -> np.ndarray:
        return array_of(entry.t, self.importer.directory, f"{self.label}, attribute {entry.name!r}")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


_DECODERS: dict[int, Any] = {
    AttributeProto.INT: lambda node, entry: int(entry.i),
    AttributeProto.FLOAT: lambda node, entry: float(entry.f),
    AttributeProto.STRING: lambda node, entry: _text(entry.s),
    AttributeProto.INTS: lambda node, entry: [int(value) for value in entry.ints],
    AttributeProto.FLOATS: lambda node, entry: [float(value) for value in entry.floats],
    AttributeProto.STRINGS: lambda node, entry: [_text(value) for value in entry.strings],
    AttributeProto.TENSOR: lambda node, entry: node._tensor(entry),
    AttributeProto.GRAPH: lambda node, entry: entry.g,
    AttributeProto.TYPE_PROTO: lambda node, entry: entry.tp,
    AttributeProto.SPARSE_TENSOR: lambda node, entry: dense_array_of(
        entry.sparse_tensor, node.importer.directory, f"{node.label}, attribute {entry.name!r}"
    ),
    AttributeProto.TENSORS: lambda node, entry: [
        array_of(item, node.importer.directory, f"{node.label}, attribute {entry.name!r}") for item in entry.tensors
    ],
}


# --------------------------------------------------------------------- Small Relay idioms that several converters share
def reshape(node: OnnxNode, value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` in `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    if not is_known(target):
        raise NeedsValue(f"{node.label}: the shape {list(target)} is known at run time only")
    return value if node.shape(value) == target else op.reshape(value, newshape=target)


def sized(node: OnnxNode, value: Expr, axis: int, extent: Any) -> Expr:
    """`value` with this extent along an axis, where that one is symbolic: a run checks that it has it."""
    shape = node.shape(value)
    if isinstance(shape[axis], int) or shape[axis] is extent:
        return value
    target = [*shape[:axis], extent, *shape[axis + 1 :]]
    if not is_known(target):
        raise NeedsValue(f"{node.label}: the shape {target} is known at run time only")
    return broadcast_to(value, target)  # a reshape compares numbers of elements, which a size of 0 makes equal


def widening_nothing(node: OnnxNode, value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` as an operand beside one of `shape` whose result has that shape: ONNX's unidirectional broadcasting."""
    extents = node.shape(value)
    beside = zip(extents[::-1], tuple(shape)[::-1])
    widens = len(extents) > len(shape) or any(is_one(wanted) and not is_one(extent) for extent, wanted in beside)
    return broadcast_to(value, shape) if widens else value


def broadcast_shapes(node: OnnxNode, *values: Expr) -> tuple[Any, ...]:
    """The common shape of `values` under NumPy broadcasting."""
    return broadcast(*(node.shape(value) for value in values))


def transpose(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` with its axes permuted, a step of its own also behind another one; the identity is left out."""
    order = tuple(int(axis) for axis in axes)
    return value if order == tuple(range(len(order))) else op.transpose(value, axes=order)
