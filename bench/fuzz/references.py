"""Evaluating beside us: ONNX's own evaluator node by node, and onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper

from bench.fuzz.values import PLAIN, element_of, is_float, numpy_type, type_proto
from tilewright.frontend.onnx.reference.evaluator import evaluator

os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"  # onnxruntime otherwise refuses the newest opsets
onnxruntime.set_default_logger_severity(4)

#: What is done to what a node reads, given the node and that.
Before = Callable[[Any, list[Any]], list[Any]]
#: What is done to the results of a node, given the node, what it read and they, before others read them.
Change = Callable[[Any, list[Any], list[Any]], list[Any]]


class ReferenceError_(Exception):
    """A reference cannot evaluate a model, or returns what the specification excludes."""


def ir_version(opset: int) -> int:
    """A version of the format that knows the opset."""
    return 8 if opset < 19 else 10 if opset < 23 else 11


def evaluate_nodes(
    model: onnx.ModelProto, feeds: Mapping[str, Any], change: Change | None = None, before: Before | None = None
) -> dict[str, Any]:
    """Every value of the graph by ONNX's evaluator; raises `ReferenceError_` where it fails or a type is wrong.

    `before` is done to what a node reads, `change` to its results.
    """
    types = _inferred_types(model)
    try:
        engine = evaluator(model)
        values: dict[str, Any] = {"": None, **engine.rt_inits_, **feeds}
        for node in engine.rt_nodes_:
            inputs = [values[name] for name in node.input]
            inputs = before(node, inputs) if before is not None else inputs
            _require_sound(node.op_type, inputs)
            context = {"context": values} if node.need_context() else {}
            with np.errstate(all="ignore"):
                results = list(node.run(*inputs, **context))
            results = change(node, inputs, results) if change is not None else results
            for name, value in zip(node.output, results):
                values[name] = _checked(value, types.get(name), node.op_type) if name else None
    except ReferenceError_:
        raise
    except Exception as error:  # whatever it is, the evaluator cannot run this model
        raise ReferenceError_(f"{type(error).__name__}: {error}") from error
    del values[""]
    return values


def _require_sound(operator: str, inputs: list[Any]) -> None:
    """Raise `ReferenceError_` where the evaluator returns another size than ONNX says, or one where there is none.

    It makes a slope that does not broadcast to the data fit somehow, drops empty texts beside stop words, makes the
    values of OneHot of their difference, which may overflow, and rounds integer exponents to floats, which makes even
    ones of odd ones beyond 2^53.
    """
    require_exponents(operator, inputs)
    if operator == "OneHot" and is_float(element_of(np.asarray(inputs[2]))):
        with np.errstate(all="ignore"):
            if not np.isfinite(np.diff(np.asarray(inputs[2]))).all():
                raise ReferenceError_("the evaluator subtracts values whose difference is not finite")
    if operator == "StringNormalizer" and "" in np.asarray(inputs[0], object):
        raise ReferenceError_("the evaluator drops empty texts")
    if operator == "PRelu":
        shape, slope = np.shape(inputs[0]), np.shape(inputs[1])
        if len(slope) > len(shape) or any(s not in (1, n) for s, n in zip(slope[::-1], shape[::-1])):
            raise ReferenceError_(f"a slope of {slope} does not broadcast to {shape}")


def require_exponents(operator: str, inputs: list[Any]) -> None:
    """Raise `ReferenceError_` for powers of odd integers beyond 2^53, which both references round to even ones."""
    if operator != "Pow" or np.asarray(inputs[1]).dtype.kind not in "iu":
        return
    if any(abs(power) > 2**53 and power % 2 for power in np.asarray(inputs[1]).ravel().tolist()):
        raise ReferenceError_("odd exponents beyond 2^53 are rounded to even ones")


def _inferred_types(model: onnx.ModelProto) -> dict[str, int]:
    """The element types of the values of a graph, as far as ONNX infers them."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.output, *graph.input)}


def _checked(value: Any, element: int | None, operator: str) -> Any:
    """A result as an array, of the type that was inferred; sequences and missing optionals pass."""
    if isinstance(value, list | dict) or value is None:
        return value
    array = np.asarray(value)
    if element and numpy_type(element) != (np.dtype(object) if array.dtype.kind in "OUST" else array.dtype):
        raise ReferenceError_(f"the evaluator's {operator} returns {array.dtype}, not {numpy_type(element)}")
    return array.astype(object) if array.dtype.kind in "UST" else array


# --------------------------------------------------------------------------- onnxruntime


def _carrier(element: int) -> int:
    """A type that onnxruntime's Python interface takes, which holds the elements of `element` exactly."""
    return element if element in PLAIN else T.FLOAT if is_float(element) else T.INT8


def _carried(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with casts at its ends, where its inputs and outputs have types that NumPy lacks."""
    carried = onnx.ModelProto()
    carried.CopyFrom(model)
    graph = carried.graph
    first, last = [], []
    for value in graph.input:
        element = value.type.tensor_type.elem_type
        if value.type.HasField("tensor_type") and _carrier(element) != element:
            first.append(helper.make_node("Cast", [f"{value.name}_carried"], [value.name], to=element))
            value.type.tensor_type.elem_type = _carrier(element)
            value.name += "_carried"
    for value in graph.output:
        element = value.type.tensor_type.elem_type
        if value.type.HasField("tensor_type") and _carrier(element) != element:
            last.append(helper.make_node("Cast", [value.name], [f"{value.name}_carried"], to=_carrier(element)))
            value.type.tensor_type.elem_type = _carrier(element)
            value.name += "_carried"
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    return carried


def run_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs by onnxruntime without its optimizations; raises `ReferenceError_` where it cannot run the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elements = [output.type.tensor_type.elem_type for output in model.graph.output]
    fed = {}
    for name, value in feeds.items():
        carrier = element_of(value) if isinstance(value, np.ndarray) else 0
        narrow = carrier and carrier not in PLAIN
        fed[f"{name}_carried" if narrow else name] = value.astype(numpy_type(_carrier(carrier))) if narrow else value
    try:
        session = onnxruntime.InferenceSession(
            _carried(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        results = session.run(None, fed)
    except Exception as error:  # whatever it is, onnxruntime cannot run this model
        raise ReferenceError_(f"{type(error).__name__}: {error}") from error
    return [
        value.astype(numpy_type(element)) if element and isinstance(value, np.ndarray) else value
        for value, element in zip(results, elements)
    ]


# --------------------------------------------------------------------------- one node


def one_node_model(
    node: onnx.NodeProto, inputs: Mapping[str, onnx.TypeProto], opset: int, domains: Mapping[str, int]
) -> onnx.ModelProto:
    """A model of one node, its outputs typed by inference. Raises where the checker or inference refuses it."""
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(name, type_) for name, type_ in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*entry) for entry in domains.items())]
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version(opset))
    onnx.checker.check_node(node, _context(model))
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


def _context(model: onnx.ModelProto) -> Any:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {entry.domain: entry.version for entry in model.opset_import}
    return context


#: Operators of which the evaluator returns results in other shapes than ONNX says.
OTHER_SHAPES = ("Loop", "GlobalMaxPool", "Optional", "OptionalGetElement")


def run_node(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Sequence[Any]:
    """The outputs of a model of one node by a reference that can run it; `ReferenceError_` where none can.

    The evaluator is asked first, but for the operators whose results it returns in another shape.
    """
    typed = all(output.type.WhichOneof("value") for output in model.graph.output)
    order = [_by_evaluator, run_onnxruntime] if model.graph.node[0].op_type not in OTHER_SHAPES else [run_onnxruntime]
    error = ReferenceError_("the outputs have no types")
    for run in order if typed else order[:1]:
        try:
            return _of_inferred_shapes(model, run(model, feeds))
        except ReferenceError_ as found:
            error = found
    raise error


def _of_inferred_shapes(model: onnx.ModelProto, results: Sequence[Any]) -> Sequence[Any]:
    """The results, which have the shapes that ONNX infers; another shape is a fault of the reference."""
    for output, result in zip(model.graph.output, results):
        type_ = output.type.tensor_type
        if isinstance(result, np.ndarray) and type_.HasField("shape"):
            sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in type_.shape.dim]
            if len(sizes) != result.ndim or any(s not in (None, r) for s, r in zip(sizes, result.shape)):
                raise ReferenceError_(f"{output.name} has shape {result.shape}, not {sizes}")
    return results


def _by_evaluator(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Sequence[Any]:
    values = evaluate_nodes(model, feeds)
    return [values[output.name] for output in model.graph.output]


def value_type(value: Any, element: int = 0, kind: str = "tensor") -> onnx.TypeProto:
    """The ONNX type of a value with its sizes."""
    if kind == "tensor":
        return type_proto(element or element_of(value), value.shape)
    return type_proto(element, None, kind)
