"""Where a case differs from its references: node by node, each by both references and by us alone.

A graph of many nodes has often one that a reference cannot run or runs differently. So a case that matches no reference
is walked: each node is run on what it is fed by onnxruntime, by ONNX's evaluator and by us. Where the references differ
the value that ours agrees with is passed on; what ours agrees with nowhere is wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T

from bench.fuzz.case import Case
from bench.fuzz.causes import is_known
from bench.fuzz.draft import reads
from bench.fuzz.judge import differences, stands, tainted, wide
from bench.fuzz.references import ReferenceError_, evaluate_nodes, one_node_model, run_onnxruntime, value_type
from bench.fuzz.values import element_of, is_float, numpy_type
from tilewright.errors import TilewrightError

#: The newest opset that onnxruntime 1.31 knows whole.
NEWEST_KNOWN = 26
#: Runs a model of one node by us: the outputs in their order.
Ours = Callable[[onnx.ModelProto, Mapping[str, Any]], list[Any]]


@dataclass
class Settled:
    """The values of a graph; where references differ, by operator and type; the node at which ours is wrong, if any."""

    values: dict[str, Any] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)
    wrong: str = ""
    whole: bool = True


def settle(case: Case, ours: Ours) -> Settled:
    """Walk the graph of a case."""
    found = Settled(dict(case.feeds))
    for tensor in case.model.graph.initializer:
        found.values[tensor.name] = _array(tensor)
    opset = case.model.opset_import[0].version
    silent = tainted(case.model, case.undefined)
    for node in case.model.graph.node:
        if not _step(node, opset, found, ours, bool(silent & set(node.output))) and not _passed(node, case, found):
            found.whole = False
            return found
        if found.wrong:
            return found
    return found


def _passed(node: onnx.NodeProto, case: Case, found: Settled) -> bool:
    """Take the values of a node that cannot be run by itself from the evaluation of its own graph of values."""
    opset = case.model.opset_import[0].version
    names = sorted(reads(node))
    if not all(name in found.values for name in names):
        return False
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", [onnx.ValueInfoProto(name=name) for name in names], outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        values = evaluate_nodes(model, {name: found.values[name] for name in names})
    except (ReferenceError_, onnx.shape_inference.InferenceError):
        return False
    found.values |= {name: values[name] for name in node.output if name}
    return True


def _array(tensor: onnx.TensorProto) -> Any:
    array = onnx.numpy_helper.to_array(tensor)
    return array.astype(object) if array.dtype.kind in "UST" else array


def _engines(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The outputs of a model of one node by each reference that runs it."""
    found: dict[str, list[Any]] = {}
    try:
        values = evaluate_nodes(model, feeds)
        found["onnx"] = [values[output.name] for output in model.graph.output]
    except ReferenceError_:
        pass
    ways = (("onnxruntime", _of_known_opset), ("onnxruntime in float32", _in_float32))
    for name, change in ways:
        try:
            changed, fed = change(*time_first(model, feeds))
            results = batch_first(model, run_onnxruntime(changed, fed))
        except ReferenceError_:
            continue
        elements = [o.type.tensor_type.elem_type for o in model.graph.output]
        found[name] = [r.astype(numpy_type(e)) if e else r for r, e in zip(results, elements)]
        break
    return found


_STATES = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6)}


def _is_batch_first(model: onnx.ModelProto) -> bool:
    node = model.graph.node[0]
    return node.op_type in _STATES and any(a.name == "layout" and a.i == 1 for a in node.attribute)


def time_first(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """A recurrent layer with the batch first as one with time first, which is all that onnxruntime has."""
    if not _is_batch_first(model):
        return model, feeds
    changed, fed = onnx.ModelProto(), dict(feeds)
    changed.CopyFrom(model)
    node = changed.graph.node[0]
    for attribute in node.attribute:
        if attribute.name == "layout":
            attribute.i = 0
    turned = {node.input[i] for i in (0, *_STATES[node.op_type]) if i < len(node.input)} - {""}
    if turned & {node.input[i] for i in (1, 2, 3, 4, 7) if i < len(node.input)}:
        raise ReferenceError_("a weight is data too")
    for value in changed.graph.input:
        if value.name in turned:
            fed[value.name] = np.ascontiguousarray(np.swapaxes(fed[value.name], 0, 1))
            value.type.CopyFrom(value_type(fed[value.name]))
    for value in changed.graph.output:
        value.type.tensor_type.ClearField("shape")
    return changed, fed


def batch_first(model: onnx.ModelProto, results: list[Any]) -> list[Any]:
    """The results of `time_first` as the model itself gives them."""
    if not _is_batch_first(model):
        return results
    orders = {4: (2, 0, 1, 3), 3: (1, 0, 2)}
    return [np.ascontiguousarray(result.transpose(orders[result.ndim])) for result in results]


def _of_known_opset(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """The model at the newest opset that onnxruntime knows, where the operator is the same there."""
    (node,), opset = model.graph.node, model.opset_import[0].version
    if opset <= NEWEST_KNOWN or onnx.defs.get_schema(node.op_type, opset).since_version > NEWEST_KNOWN:
        return model, feeds
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.opset_import[0].version = NEWEST_KNOWN
    return changed, feeds


def _in_float32(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """The model with float32 in place of other floats, which onnxruntime often lacks; raises where there is none."""
    others = (T.DOUBLE, T.FLOAT16, T.BFLOAT16)
    model, _ = _of_known_opset(model, feeds)
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    tensors = [v.type.tensor_type for v in (*changed.graph.input, *changed.graph.output)]
    if not any(tensor.elem_type in others for tensor in tensors) or any(
        attribute.i in others for attribute in changed.graph.node[0].attribute if attribute.name in ("to", "dtype")
    ):
        raise ReferenceError_("no other floats")
    for tensor in tensors:
        if tensor.elem_type in others:
            tensor.elem_type = T.FLOAT
    with np.errstate(all="ignore"):
        return changed, {n: v.astype(np.float32) if element_of(v) in others else v for n, v in feeds.items()}


def _step(node: onnx.NodeProto, opset: int, found: Settled, ours: Ours, silent: bool) -> bool:
    """Settle one node; False where it cannot be run by itself."""
    if node.op_type == "Constant":
        found.values[node.output[0]] = evaluate_nodes(_alone(node, opset), {})[node.output[0]]
        return True
    names = sorted(reads(node))
    feeds = {name: found.values[name] for name in names}
    if not all(hasattr(value, "dtype") for value in feeds.values()):
        return False  # a sequence, whose type its items do not tell
    types = {name: value_type(value, element_of(value)) for name, value in feeds.items()}
    try:
        model = one_node_model(node, types, opset, {})
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    engines = _engines(model, feeds)
    outputs = [output.name for output in model.graph.output]
    if not engines:
        return False
    first = next(iter(engines.values()))
    if silent:
        found.values |= dict(zip(outputs, first))
        return True
    try:
        made = ours(model, feeds)
    except TilewrightError as error:
        found.wrong = f"{node.op_type}, alone: {error}"
        return True
    what = f"{node.op_type} of {_type_of(feeds, first)}"
    faults = {
        engine: next((f for n, a, b in zip(outputs, made, values) if (f := _fault(model, feeds, n, a, b, engine))), "")
        for engine, values in engines.items()
    }
    if any(faults.values()) and not all(faults.values()):
        found.disagreements.append(what)
    right = next((engine for engine, fault in faults.items() if not fault), None)
    if right is not None:
        # float32 confirms what other floats are, and does not replace it
        found.values |= dict(zip(outputs, made if right == "onnxruntime in float32" else engines[right]))
        return True
    agree = len(engines) < 2 or not any(
        _fault(model, feeds, n, a, b, list(engines)[-1]) for n, a, b in zip(outputs, *engines.values())
    )
    if is_known(what, tuple(engines) if agree else ()):
        found.disagreements.append(f"{what}, by {' and '.join(engines)}")
        found.values |= dict(zip(outputs, made))
    elif agree:
        found.wrong = f"{what}: beside {' and '.join(engines)} {next(iter(faults.values()))}"
    else:
        found.wrong = f"{what}: all three differ: {'; '.join(faults.values())[:160]}"
    return True


def _alone(node: onnx.NodeProto, opset: int) -> onnx.ModelProto:
    """A model of a node that reads nothing."""
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = onnx.helper.make_graph([node], "constant", [], outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def _fault(
    model: onnx.ModelProto, feeds: Mapping[str, Any], name: str, ours: Any, theirs: Any, engine: str = ""
) -> str:
    """What is wrong with a result of ours; beside an engine that computes in less precision, in that precision."""
    if engine == "onnxruntime in float32" and is_float(element_of(theirs)) and isinstance(ours, np.ndarray):
        with np.errstate(all="ignore"):
            near = np.allclose(
                wide(ours), wide(theirs), 1e-2 if ours.dtype.itemsize < 4 else 1e-4, 1e-4, equal_nan=True
            )
        return "" if ours.shape == theirs.shape and near else "not near"
    found = differences(ours, theirs)
    if not isinstance(found, str) and not found.any():
        return ""
    return stands(model, feeds, 0, name, ours, theirs)


def _type_of(feeds: Mapping[str, Any], results: list[Any]) -> str:
    """The type that tells most about a node: that of its first floats, or else of its first input."""
    arrays = [v for v in (*feeds.values(), *results) if hasattr(v, "dtype")]
    return str(next((a.dtype for a in arrays if a.dtype.kind not in "iub"), arrays[0].dtype if arrays else "sequences"))
