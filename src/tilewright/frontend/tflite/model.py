"""A TFLite file as plain data: subgraphs of operators over numbered tensors, checked so far as indices and sizes go."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import InputError, ModelError, ShapeError, UnsupportedError
from tilewright.frontend.inputs import Declared, Dim, InputSpec, resolve_inputs
from tilewright.frontend.source import Source
from tilewright.frontend.tflite.flatbuffer import Reader, Record, empty_record
from tilewright.frontend.tflite.schema import ELEMENT_TYPES, OPERATORS
from tilewright.frontend.tflite.sparse import densified
from tilewright.support.dtype import DType
from tilewright.support.open_sizes import how_to_fix, shapes_by_name

#: What stands at bytes 4 to 8 of a file.
IDENTIFIER = b"TFL3"

#: Element types as NumPy has them. Those of 4 and 2 bits are kept in bytes.
_NUMPY: dict[str, Any] = {
    "FLOAT32": np.float32, "FLOAT16": np.float16, "FLOAT64": np.float64, "BFLOAT16": ml_dtypes.bfloat16,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8, "UINT16": np.uint16,
    "UINT32": np.uint32, "UINT64": np.uint64, "BOOL": np.bool_, "INT4": np.int8, "INT2": np.int8, "UINT4": np.uint8,
    "FLOAT8_E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8_E5M2": ml_dtypes.float8_e5m2, "RESOURCE": np.int32,
}  # fmt: skip
#: Bits of the element types that share bytes.
_PACKED = {"INT4": 4, "INT2": 2, "UINT4": 4}
_LARGEST_EXTENT = (1 << 31) - 1


@dataclass(frozen=True)
class Quantization:
    """Integers q stand for scale * (q - zero_point): one number for all, or one for each index of `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int

    @property
    def step(self) -> float:
        """The one scale of a tensor quantized as a whole: a float32 number."""
        return float(self.scale[0])

    @property
    def zero(self) -> int:
        """The one zero point of a tensor quantized as a whole."""
        return int(self.zero_point[0])

    @property
    def per_channel(self) -> bool:
        """True where the channels of `axis` have scales of their own."""
        return self.scale.size > 1


@dataclass(frozen=True)
class Tensor:
    """A tensor as the file declares it; `data` is its value if it is constant.

    Without a rank `shape` is (); `has_rank` is None for that shape in a file that says of no tensor that it has one.
    """

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    has_rank: bool | None
    element_type: str
    data: np.ndarray | None
    quantization: Quantization | None
    is_variable: bool

    @property
    def dtype(self) -> str:
        """The element type by NumPy's name, "string" for text; "" for complex numbers and variants."""
        if self.element_type == "STRING":
            return "string"
        found = _NUMPY.get(self.element_type)
        return "" if found is None else str(np.dtype(found))


@dataclass(frozen=True)
class Operator:
    """One operator: `name` as the schema spells it, for a custom operator its own; -1 among `inputs` is none."""

    name: str
    custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: Record
    custom_options: bytes


@dataclass(frozen=True)
class Subgraph:
    """Operators in the order they run."""

    name: str
    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


@dataclass(frozen=True)
class Entry:
    """A subgraph to run, and what its inputs and outputs are called, by their tensors, where that differs."""

    subgraph: int = 0
    names: Mapping[int, str] = field(default_factory=dict)

    def named(self, graph: Subgraph, position: int) -> Tensor:
        """A tensor under the name that the entry has for it."""
        tensor = graph.tensors[position]
        return replace(tensor, name=self.names.get(position, tensor.name))


@dataclass(frozen=True)
class Model:
    """The subgraphs of a file, of which the first is run unless a signature is requested; `label` names the file."""

    label: str
    subgraphs: list[Subgraph]
    signatures: Mapping[str, Entry] = field(default_factory=dict)

    def entry(self, signature: str | None) -> Entry:
        """The entry called `signature`. Raises `InputError` naming those that there are."""
        if signature is None:
            return Entry()
        if signature not in self.signatures:
            known = ", ".join(map(repr, self.signatures)) or "none"
            raise InputError(f"{self.label} has no signature {signature!r}; there are: {known}")
        return self.signatures[signature]


def is_tflite(head: bytes) -> bool:
    """True if a file that begins with `head` declares itself a TFLite model."""
    return head[4:8] == IDENTIFIER


def load_model(model: str | os.PathLike[str] | bytes) -> Model:
    """Read and check a file or its bytes.

    Raises `ModelError` for a missing, foreign, truncated or damaged file.
    """
    source = Source.of(model)
    data = source.contents
    if not is_tflite(bytes(data[:8])):
        raise ModelError(f"{source.label} ({len(data)} bytes) is not a TFLite model: it does not say TFL3 at byte 4")
    return _Loader(data, source.label).model()


class _Loader:
    def __init__(self, data: memoryview, label: str) -> None:
        self.data = data
        self.label = label
        self.root = Reader(data, label).root("Model")
        self.buffers = self.root.buffers or []

    def model(self) -> Model:
        codes = [self._code(code) for code in self.root.operator_codes or []]
        subgraphs = [self._subgraph(graph, codes) for graph in self.root.subgraphs or []]
        if not subgraphs:
            raise self._bad("it holds no subgraph")
        return Model(self.label, subgraphs, self._signatures(subgraphs))

    def _signatures(self, subgraphs: list[Subgraph]) -> dict[str, Entry]:
        found = {}
        for one in self.root.signature_defs or []:
            if one.subgraph_index >= len(subgraphs):
                raise self._bad(f"the signature {one.signature_key!r} is of subgraph {one.subgraph_index}")
            names = {entry.tensor_index: entry.name for entry in [*(one.inputs or []), *(one.outputs or [])]}
            found[one.signature_key] = Entry(one.subgraph_index, names)
        return found

    def _bad(self, what: str) -> ModelError:
        return ModelError(f"{self.label} is a damaged TFLite model: {what}")

    def _code(self, code: Record) -> tuple[str, bool, int]:
        number = max(code.builtin_code, code.deprecated_builtin_code)
        if not 0 <= number < len(OPERATORS):
            raise self._bad(f"it uses the builtin operator {number}; those up to {len(OPERATORS) - 1} are known")
        custom = OPERATORS[number] == "CUSTOM"
        return (code.custom_code if custom else OPERATORS[number]), custom, code.version

    def _subgraph(self, graph: Record, codes: list[tuple[str, bool, int]]) -> Subgraph:
        listed = graph.tensors or []
        states_rank = any(tensor.has_rank for tensor in listed)  # files of older converters state it of none
        tensors = [self._tensor(tensor, bool(tensor.has_rank) if states_rank else None) for tensor in listed]
        inputs, outputs = (self._indices(part, tensors, "subgraph") for part in (graph.inputs, graph.outputs))
        operators = [self._operator(operator, codes, tensors) for operator in graph.operators or []]
        if min((*inputs, *outputs), default=0) < 0:
            raise self._bad("an input or output of a subgraph is no tensor")
        return Subgraph(graph.name, tensors, inputs, outputs, operators)

    def _indices(self, values: Any, tensors: list[Tensor], what: str) -> tuple[int, ...]:
        found = tuple([] if values is None else values.tolist())
        if any(not -1 <= index < len(tensors) for index in found):
            raise self._bad(f"a {what} names the tensors {list(found)} of {len(tensors)}")
        return found

    def _operator(self, operator: Record, codes: list[tuple[str, bool, int]], tensors: list[Tensor]) -> Operator:
        if operator.opcode_index >= len(codes):
            raise self._bad(f"an operator has the code {operator.opcode_index} of {len(codes)}")
        name, custom, version = codes[operator.opcode_index]
        what = f"operator {name}"
        options = operator.builtin_options2 or operator.builtin_options or empty_record("")
        custom_options = b"" if operator.custom_options is None else operator.custom_options.tobytes()
        if operator.large_custom_options_offset:
            custom_options = bytes(self._outside(operator, "large_custom_options_", what))
        lists = (operator.inputs, operator.outputs, operator.intermediates)
        inputs, outputs, inner = (self._indices(one, tensors, what) for one in lists)
        return Operator(name, custom, version, inputs, outputs, inner, options, custom_options)

    def _outside(self, record: Record, prefix: str, what: str) -> memoryview:
        """Bytes that lie behind the FlatBuffer, by their offset in the file."""
        offset, size = getattr(record, f"{prefix}offset"), getattr(record, f"{prefix}size")
        if offset + size > len(self.data):
            raise self._bad(f"the {size} bytes of {what} at byte {offset} reach beyond its end")
        return self.data[offset : offset + size]

    def _tensor(self, tensor: Record, has_rank: bool | None) -> Tensor:
        name = tensor.name
        if not 0 <= tensor.type < len(ELEMENT_TYPES):
            raise self._bad(f"the tensor {name!r} has elements of type {tensor.type}, which is none")
        shape = tuple([] if tensor.shape is None else tensor.shape.tolist())
        signature = shape if tensor.shape_signature is None else tuple(tensor.shape_signature.tolist())
        if min(shape, default=0) < -1 or prod(max(extent, 1) for extent in shape) > _LARGEST_EXTENT:
            raise self._bad(f"the tensor {name!r} has the shape {list(shape)}")
        element_type = ELEMENT_TYPES[tensor.type]
        signature = signature if len(signature) == len(shape) else shape
        data, quantization = self._data(tensor, shape, element_type), self._quantization(tensor, name, shape)
        has_rank = True if shape else has_rank
        return Tensor(name, shape, signature, has_rank, element_type, data, quantization, tensor.is_variable)

    def _data(self, tensor: Record, shape: tuple[int, ...], element_type: str) -> np.ndarray | None:
        if not tensor.buffer:
            return None
        if tensor.buffer >= len(self.buffers):
            raise self._bad(f"the tensor {tensor.name!r} is in buffer {tensor.buffer} of {len(self.buffers)}")
        buffer = self.buffers[tensor.buffer]
        content = self._outside(buffer, "", repr(tensor.name)) if buffer.offset > 1 else buffer.data
        if content is None or not len(content):
            return None
        raw = np.frombuffer(content, np.uint8)
        where = f"the tensor {tensor.name!r}"
        if element_type == "STRING":
            return self._texts(raw, shape, where)
        if element_type not in _NUMPY:
            return raw  # read by the operators that take it
        if tensor.sparsity is not None and tensor.sparsity.dim_metadata:
            return densified(tensor.sparsity, raw, shape, np.dtype(_NUMPY[element_type]), f"{self.label}: {where}")
        bits = _PACKED.get(element_type)
        count = prod(shape)
        if bits:
            raw = unpacked(raw, bits, element_type.startswith("INT"))[:count]
        dtype = np.dtype(_NUMPY[element_type])
        if min(shape, default=0) < 0 or raw.nbytes != count * dtype.itemsize:
            raise self._bad(f"{where} of type {element_type} and shape {list(shape)} is given {raw.nbytes} bytes")
        return (raw != 0 if element_type == "BOOL" else raw.view(dtype)).reshape(shape)

    def _texts(self, raw: np.ndarray, shape: tuple[int, ...], where: str) -> np.ndarray:
        """Texts as a buffer has them: how many, where each begins and the last ends, in 32 bits, and their bytes."""
        count = int(raw[:4].view("<i4")[0]) if raw.size >= 4 else -1
        if min(shape, default=0) < 0 or count != prod(shape) or raw.size < 4 * (count + 2):
            raise self._bad(f"{where} of shape {list(shape)} holds {count} texts in {raw.size} bytes")
        positions = raw[4 : 4 * (count + 2)].view("<i4").astype(np.int64)
        if positions[0] < 0 or positions[-1] > raw.size or (np.diff(positions) < 0).any():
            raise self._bad(f"{where} holds texts beside its {raw.size} bytes")
        found = np.empty(count, object)
        for index in range(count):
            found[index] = raw[positions[index] : positions[index + 1]].tobytes().decode("utf-8", "replace")
        return found.reshape(shape)

    def _quantization(self, tensor: Record, name: str, shape: tuple[int, ...]) -> Quantization | None:
        given = tensor.quantization
        if given is None or given.scale is None or not given.scale.size:
            return None
        zero = given.zero_point
        zero = np.zeros(given.scale.size, np.int64) if zero is None or not zero.size else zero
        axis = given.quantized_dimension if given.scale.size > 1 else 0
        fits = given.scale.size == 1 or (0 <= axis < len(shape) and given.scale.size == shape[axis])
        if not fits or zero.size not in (1, given.scale.size) or not np.isfinite(given.scale).all():
            raise self._bad(
                f"the tensor {name!r} of shape {list(shape)} is quantized by {given.scale.size} scales and {zero.size} "
                f"zero points along axis {axis}"
            )
        return Quantization(given.scale, np.broadcast_to(zero, given.scale.shape), axis)


def unpacked(raw: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """Numbers of `bits` bits, lowest bits of a byte first, one in a byte each."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((raw[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)
    if not signed:
        return codes
    half = 1 << (bits - 1)
    return ((codes.astype(np.int16) ^ half) - half).astype(np.int8)


# -------------------------- The inputs of a TFLite model: the shapes of the file, or those that the user states instead
def input_specs(tensors: Sequence[Tensor], input_shapes: Mapping[str, Sequence[Any]] | None) -> list[InputSpec]:
    """The specs of the model's inputs, in order.

    Raises `ShapeError` for an unknown input, a wrong rank or an extent that the file fixes to another number.
    """
    given = shapes_by_name(input_shapes, [tensor.name for tensor in tensors])
    declared = []
    for tensor in tensors:
        if not tensor.dtype or tensor.element_type == "RESOURCE":
            raise UnsupportedError(f"input {tensor.name!r} holds {tensor.element_type}, which is not supported")
        dims: Sequence[Dim] | None = [1 if extent == -1 else extent for extent in tensor.shape]
        if tensor.name in given:
            open_ = ["?" if extent == -1 else extent for extent in tensor.signature]
            dims = open_ if tensor.has_rank else None
        elif tensor.has_rank is False:
            raise ShapeError(
                f"the file does not fix the number of dimensions of input {tensor.name!r}, and it must be fixed at "
                f"compile time; pass it, for example with {how_to_fix([(tensor.name, None)])}, or () for a scalar"
            )
        declared.append(Declared(tensor.name, None if dims is None else tuple(dims), DType(tensor.dtype)))
    return resolve_inputs(declared, input_shapes)
