"""A random chain of quantized operators being grown, each node evaluated in exact arithmetic as it is added.

Whoever draws the next node knows the numbers before it, and chooses scales that spread them over the codes. In half of
the graphs all scales are powers of two, so that nothing is rounded but by QuantizeLinear, ties occur, and results are
exact to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.fuzz.exact import Array, Bounded, known, limits
from bench.fuzz.exact_nodes import evaluate_node

MICROSOFT = "com.microsoft"
ELEMENTS = {
    "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "uint16": TensorProto.UINT16, "int16": TensorProto.INT16,
    "int4": TensorProto.INT4, "uint4": TensorProto.UINT4, "float32": TensorProto.FLOAT, "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}  # fmt: skip
#: More elements than this has no value.
LARGEST = 40_000


class Unfit(Exception):
    """The operator does not fit what there is."""


@dataclass(frozen=True)
class Named:
    """A value of the graph."""

    name: str
    bounded: Bounded

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes when the graph is fed as it will be."""
        return self.bounded.value.shape

    @property
    def dtype(self) -> str:
        """The type of its elements."""
        return self.bounded.dtype


@dataclass(frozen=True)
class Codes:
    """Codes with the scale and zero point that say what they stand for."""

    codes: Named
    scale: Named
    zero: Named


class Chain:
    """The graph as it grows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.binary = self.random.random() < 0.5
        self.symbolic = self.random.random() < 0.2
        self.batch = self.random.choice([1, 1, 2, 3])
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[tuple[Named, Array]] = []
        self._count = 0

    def choice(self, options: Iterable[Any]) -> Any:
        """One of the options."""
        return self.random.choice(list(options))

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.random.random() < probability

    def name(self) -> str:
        """A new name."""
        self._count += 1
        return f"v{self._count}"

    # ------------------------------------------------------------------------------------------------ values
    def constant(self, array: Any, dtype: str = "") -> Named:
        """A constant of the graph; `dtype` names those that NumPy lacks."""
        array = np.asarray(array)
        dtype = dtype or str(array.dtype)
        name = self.name()
        if dtype in ("int4", "uint4"):
            flat = array.reshape(-1).astype(int).tolist()
            self.constants.append(helper.make_tensor(name, ELEMENTS[dtype], array.shape, flat))
        else:
            self.constants.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), name))
        return Named(name, Bounded(np.asarray(array, np.float64), np.zeros(array.shape), dtype))

    def input(self, array: Array) -> Named:
        """An input of the graph."""
        value = Named(self.name(), known(array))
        self.inputs.append((value, array))
        return value

    def codes(self, shape: Sequence[int], dtype: str) -> Array:
        """Random codes: of the whole range, often its ends, or of a narrow one."""
        low, high = limits(dtype)
        kind = self.choice(["whole", "whole", "ends", "largest", "narrow"])
        if kind == "ends":
            found = self.numbers.choice([low, low + 1, high, high - 1, 0], shape)
        elif kind == "largest":
            found = np.where(self.numbers.random(shape) < 0.9, high, low)
        elif kind == "narrow":
            found = self.numbers.integers(max(low, -4), min(high, 9), shape)
        else:
            found = self.numbers.integers(low, high, shape, endpoint=True)
        return found.astype(np.int64)

    def scale_near(self, size: float) -> float:
        """A scale of about this size, a power of two where all are."""
        size = max(size, 1e-6)
        if self.binary:
            return float(2.0 ** round(np.log2(size)))
        return float(np.float32(size * self.random.uniform(0.7, 1.4)))

    def zero_point(self, dtype: str, shape: tuple[int, ...] = ()) -> Named:
        """A zero point: 0, in the middle, or anywhere in the range."""
        low, high = limits(dtype)
        middle = (low + high + 1) // 2
        kind = self.choice(["none", "middle", "any", "any"])
        drawn = self.numbers.integers(low, high, shape, endpoint=True)
        found = drawn if kind == "any" else np.full(shape, middle if kind == "middle" else max(low, 0))
        return self.constant(found, dtype)

    # ------------------------------------------------------------------------------------------------- nodes
    def emit(self, operator: str, inputs: Sequence[Named | None], outputs: int = 1, **attributes: Any) -> list[Named]:
        """Add a node and evaluate it."""
        domain = attributes.pop("domain", "")
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(operator, [v.name if v else "" for v in inputs], names, domain=domain, **attributes)
        results = evaluate_node(node, [v.bounded if v else None for v in inputs])
        if any(result.value.size > LARGEST or result.value.size == 0 for result in results):
            raise Unfit("too large, or empty")
        if any(not np.isfinite(result.value).all() or np.abs(result.value).max() > 1e30 for result in results):
            raise Unfit("beyond float32")
        if any(result.dtype == "int32" and np.abs(result.value).max() >= 2**31 for result in results):
            raise Unfit("beyond int32")
        self.nodes.append(node)
        return [Named(name, result) for name, result in zip(names, results)]

    def spread(self, data: Named, dtype: str) -> tuple[Named, Named]:
        """A scale and zero point for float32 data: most of it fits, some saturates."""
        low, high = limits(dtype)
        largest = float(np.abs(data.bounded.value).max())
        scale = self.scale_near(largest / (high - low) * self.choice([2.0, 2.0, 1.0, 0.5, 4.0]))
        return self.constant(np.float32(scale)), self.zero_point(dtype)

    def quantize(self, data: Named, dtype: str = "") -> Codes:
        """QuantizeLinear of float32 data."""
        dtype = dtype or self.choice(["uint8", "int8"] * 4 + ["int16", "uint16"])
        scale, zero = self.spread(data, dtype)
        (codes,) = self.emit("QuantizeLinear", [data, scale, zero])
        return Codes(codes, scale, zero)

    def dequantize(self, codes: Codes, **attributes: Any) -> Named:
        """DequantizeLinear."""
        return self.emit("DequantizeLinear", [codes.codes, codes.scale, codes.zero], **attributes)[0]

    def weights(self, shape: tuple[int, ...], axis: int, dtypes: Sequence[str] = ("int8", "int8", "uint8")) -> Codes:
        """Constant codes of weights, with a scale for all or along an axis; symmetric or not."""
        dtype = self.choice(dtypes)
        each = (shape[axis],) if self.chance(0.5) else ()
        size = 1.0 / (limits(dtype)[1] * max(1, int(np.prod(shape) // shape[axis])) ** 0.5)
        scales = np.array([self.scale_near(size) for _ in range(int(np.prod(each)))], np.float32).reshape(each)
        symmetric = dtype.startswith("int") and self.chance(0.6)
        zero = self.constant(np.zeros(each), dtype) if symmetric else self.zero_point(dtype, each)
        if each and self.chance(0.7):  # kernels take one zero point, so that most have one
            zero = self.constant(np.full(each, zero.bounded.value.flat[0]), dtype)
        return Codes(self.constant(self.codes(shape, dtype), dtype), self.constant(scales), zero)

    # ------------------------------------------------------------------------------------------------- model
    def model(self, outputs: Sequence[Named]) -> onnx.ModelProto:
        """The graph as a model; a symbolic batch has a name in place of its size."""

        def sizes(value: Named) -> list[Any]:
            return ["batch" if self.symbolic and axis == 0 else size for axis, size in enumerate(value.shape)]

        given = [helper.make_tensor_value_info(v.name, ELEMENTS[v.dtype], sizes(v)) for v, _ in self.inputs]
        results = [helper.make_tensor_value_info(v.name, ELEMENTS[v.dtype], [None] * len(v.shape)) for v in outputs]
        graph = helper.make_graph(self.nodes, "chain", given, results, self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)
