"""TFLite models of one operator, made on the spot, and their results from LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.tflite import from_tflite, initial_states

REASON = "needs ai-edge-litert and flatbuffers: pip install ai-edge-litert"
schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason=REASON)
interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason=REASON)
flatbuffers = pytest.importorskip("flatbuffers", reason=REASON)

_TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32",
    "int64": "INT64", "bool": "BOOL", "uint32": "UINT32", "uint16": "UINT16", "float64": "FLOAT64",
    "uint64": "UINT64", "string": "STRING",
}  # fmt: skip

#: Operators that the interpreter has in later versions only.
_VERSIONS = {"BROADCAST_TO": 2}


@dataclass
class T:
    """A tensor: an input without `data`, a constant with it; quantized by `scale` (a list: per channel of `axis`).

    A `variable` is neither: operators change it in place.
    """

    shape: Sequence[int]
    dtype: str = "float32"
    data: Any = None
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    variable: bool = False
    has_rank: bool = False
    signature: Sequence[int] | None = None


@dataclass
class Op:
    """One operator over tensors by number; `options` as the schema names them, e.g. ("Conv2DOptions", {...})."""

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: tuple[str, dict[str, Any]] | None = None
    intermediates: Sequence[int] = ()


@dataclass
class Graph:
    """A subgraph."""

    tensors: Sequence[T]
    inputs: Sequence[int]
    outputs: Sequence[int]
    ops: Sequence[Op] = field(default_factory=list)


def build(*graphs: Graph) -> bytes:
    """The file of a model of `graphs`."""
    model = schema.ModelT()
    model.version, model.description = 3, "tiny"
    model.buffers, model.operatorCodes, model.subgraphs = [schema.BufferT()], [], []
    codes: dict[str, int] = {}
    for graph in graphs:
        made = schema.SubGraphT()
        made.name = "graph"
        made.tensors = [_tensor(model, tensor, f"t{number}") for number, tensor in enumerate(graph.tensors)]
        made.inputs, made.outputs = list(graph.inputs), list(graph.outputs)
        made.operators = [_operator(model, op, codes) for op in graph.ops]
        model.subgraphs.append(made)
    out = flatbuffers.Builder(1024)
    out.Finish(model.Pack(out), b"TFL3")
    return bytes(out.Output())


def _tensor(model: Any, tensor: T, name: str) -> Any:
    made = schema.TensorT()
    made.name, made.shape, made.buffer, made.isVariable = name, list(tensor.shape), 0, tensor.variable
    made.hasRank, made.shapeSignature = tensor.has_rank, tensor.signature
    made.type = getattr(schema.TensorType, _TYPES.get(tensor.dtype, tensor.dtype))
    if tensor.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(_bytes_of(tensor), np.uint8)
        made.buffer = len(model.buffers)
        model.buffers.append(buffer)
    if tensor.scale is not None:
        scale = np.atleast_1d(np.asarray(tensor.scale, np.float32))
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale = scale
        made.quantization.zeroPoint = np.broadcast_to(np.asarray(tensor.zero, np.int64), scale.shape).copy()
        made.quantization.quantizedDimension = tensor.axis
    return made


def _bytes_of(tensor: T) -> bytes:
    """The elements as a buffer has them."""
    if tensor.dtype != "string":
        return np.ascontiguousarray(np.asarray(tensor.data, tensor.dtype)).tobytes()
    texts = [text.encode() for text in np.asarray(tensor.data, object).reshape(-1)]
    positions = np.cumsum([4 * (len(texts) + 2), *map(len, texts)])
    return np.array([len(texts), *positions], "<i4").tobytes() + b"".join(texts)


def _operator(model: Any, op: Op, codes: dict[str, int]) -> Any:
    if op.name not in codes:
        code = schema.OperatorCodeT()
        custom = op.name.startswith("custom:")
        code.builtinCode = getattr(schema.BuiltinOperator, "CUSTOM" if custom else op.name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), _VERSIONS.get(op.name, 1)
        code.customCode = op.name.removeprefix("custom:") if custom else None
        codes[op.name] = len(model.operatorCodes)
        model.operatorCodes.append(code)
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = codes[op.name], list(op.inputs), list(op.outputs)
    made.intermediates = list(op.intermediates) or None
    if op.options is not None:
        kind, values = op.options
        options = getattr(schema, f"{kind}T")()
        for name, value in values.items():
            assert hasattr(options, name), f"{kind} has no {name}"
            setattr(options, name, value)
        if hasattr(schema.BuiltinOptions, kind):
            made.builtinOptionsType, made.builtinOptions = getattr(schema.BuiltinOptions, kind), options
        else:
            made.builtinOptions2Type, made.builtinOptions2 = getattr(schema.BuiltinOptions2, kind), options
    return made


def single(
    name: str,
    inputs: Sequence[T | None],
    outputs: Sequence[T],
    options: tuple[str, dict[str, Any]] | None,
    intermediates: Sequence[T] = (),
) -> bytes:
    """A model of one operator; an input that it is not given is None."""
    return build(graph_of_one(name, inputs, outputs, options, intermediates))


def graph_of_one(
    name: str,
    inputs: Sequence[T | None],
    outputs: Sequence[T],
    options: tuple[str, dict[str, Any]] | None,
    intermediates: Sequence[T] = (),
) -> Graph:
    """A graph of one operator; an input that it is not given is None."""
    positions = {
        index: position for position, index in enumerate(i for i, tensor in enumerate(inputs) if tensor is not None)
    }
    present = [tensor for tensor in inputs if tensor is not None]
    tensors = [*present, *outputs, *intermediates]
    given = [index for index, tensor in enumerate(present) if tensor.data is None and not tensor.variable]
    results = list(range(len(present), len(present) + len(outputs)))
    between = list(range(len(present) + len(outputs), len(tensors)))
    operator = Op(name, [positions.get(index, -1) for index in range(len(inputs))], results, options, between)
    return Graph(tensors, given, results, [operator])


def beside(graphs: Sequence[Graph]) -> Graph:
    """One graph of all operators of `graphs`, which share nothing."""
    joined = Graph([], [], [], [])
    for graph in graphs:
        first = len(joined.tensors)

        def moved(numbers: Sequence[int], first: int = first) -> list[int]:
            return [number + first if number >= 0 else number for number in numbers]

        ops = [replace(op, inputs=moved(op.inputs), outputs=moved(op.outputs), intermediates=moved(op.intermediates))
               for op in graph.ops]  # fmt: skip
        joined = Graph([*joined.tensors, *graph.tensors], [*joined.inputs, *moved(graph.inputs)],
                       [*joined.outputs, *moved(graph.outputs)], [*joined.ops, *ops])  # fmt: skip
    return joined


def random_input(tensor: Any, rng: np.random.Generator, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Random elements of the shape and type of an input of the interpreter."""
    shape, dtype = tuple(tensor["shape"]), np.dtype(tensor["dtype"])
    if dtype.kind == "f":
        return rng.uniform(low, high, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    quantized = bool(len(tensor["quantization_parameters"]["scales"]))
    limits = np.iinfo(dtype)
    if quantized:
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return rng.integers(max(int(low), limits.min), max(int(high), 1) + 1, shape).astype(dtype)


def opened(model: bytes, reference: bool = True) -> Any:
    """LiteRT with its reference kernels, or its usual ones without XNNPACK, ready to run."""
    kinds = interpreter.OpResolverType
    plain = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    chosen = kinds.BUILTIN_REF if reference else plain
    try:
        run = interpreter.Interpreter(model_content=model, experimental_op_resolver_type=chosen)
    except ValueError as error:
        if "Didn't find op" not in str(error):
            raise
        run = interpreter.Interpreter(model_content=model, experimental_op_resolver_type=plain)  # of one kernel only
    run.allocate_tensors()
    return run


def outputs_of(run: Any, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of one more run of an interpreter."""
    for detail, value in zip(run.get_input_details(), feeds):
        run.set_tensor(detail["index"], value)
    run.invoke()
    return [run.get_tensor(detail["index"]) for detail in run.get_output_details()]


def input_details(model: bytes) -> list[Any]:
    """The interpreter's description of the model's inputs."""
    return interpreter.Interpreter(model_content=model).get_input_details()


def check(
    model: bytes, low: float = -2.0, high: float = 2.0, tolerance: float = 2e-5, seed: int = 0, runs: int = 1,
    reference: bool = True,
) -> None:  # fmt: skip
    """Compiled, the model gives the reference's integers exactly and its floats within `tolerance`.

    It runs several times over fresh inputs, what it keeps between runs carried on.
    """
    rng = np.random.default_rng(seed)
    kernels = opened(model, reference)
    module, specs = from_tflite(model)
    executable = tw.compile(module, cache=False)
    states = initial_states(model)
    for _ in range(runs):
        feeds = [random_input(detail, rng, low, high) for detail in kernels.get_input_details()]
        wanted = outputs_of(kernels, feeds)
        given = {spec.name: feed for spec, feed in zip(specs, feeds)}
        found = [np.asarray(value) for value in executable.run({**given, **states})]
        assert len(found) == len(wanted) + len(states)
        for ours, theirs in zip(found, wanted):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(ours, theirs)
        states = dict(zip(states, found[len(wanted) :]))
