"""Search for the node at which a case differs from its references: node by node, by both references and by us.

A graph of many nodes has often one that a reference cannot run or runs differently. So a case that matches no reference
is walked: each node is run on what it is fed by onnxruntime, by ONNX's evaluator and by us. Where the references differ
the value that ours agrees with is passed on; what ours agrees with nowhere is wrong there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T

from bench.fuzz.case import Case
from bench.fuzz.causes import is_known
from bench.fuzz.contrib_schemas import DOMAIN
from bench.fuzz.draft import reads
from bench.fuzz.judge import (
    RUNS,
    described,
    differences,
    differs,
    is_plain_float,
    moved_inputs,
    moved_results,
    tainted,
    verdict,
    wide,
)
from bench.fuzz.references import (
    ReferenceError_,
    evaluate_nodes,
    one_node_model,
    require_exponents,
    run_onnxruntime,
    value_type,
)
from bench.fuzz.values import element_of, is_float, numpy_type
from tilewright.errors import TilewrightError

#: Domains of operators that read constants only: packed weights.
CONSTANT_WEIGHTS = frozenset([DOMAIN])
#: The newest opset that onnxruntime 1.31 knows whole.
NEWEST_KNOWN = 26
#: Runs a model of one node: the outputs in their order. Of a reference it raises `ReferenceError_`.
Engine = Callable[[onnx.ModelProto, Mapping[str, Any]], list[Any]]
#: Makes of a model and its feeds others, which an engine can run.
Change = Callable[[onnx.ModelProto, Mapping[str, Any]], tuple[onnx.ModelProto, Mapping[str, Any]]]


@dataclass(frozen=True)
class Step:
    """A node by itself, and the engine that its values are from."""

    model: onnx.ModelProto
    engine: Engine

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The results of the node, by name, for what it is fed."""
        return dict(zip((output.name for output in self.model.graph.output), self.engine(self.model, feeds)))


@dataclass
class Settled:
    """The values of a graph; where references differ, by operator and type; the node at which ours is wrong, if any."""

    values: dict[str, Any] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)
    wrong: str = ""
    whole: bool = True
    given: dict[str, Any] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)

    def moved_runs(self, seed: int, count: int) -> list[dict[str, Any]]:
        """The values of the graph again, and with other rounding; what cannot be evaluated with it is left out."""
        rng = np.random.default_rng(seed)
        return [self.values, *(self._moved_run(rng) for _ in range(count))]

    def _moved_run(self, rng: np.random.Generator) -> dict[str, Any]:
        values = dict(self.given)
        for step in self.steps:
            if all(value.name in values for value in step.model.graph.input):
                feeds = {value.name: values[value.name] for value in step.model.graph.input}
                with contextlib.suppress(ReferenceError_, TilewrightError):
                    values |= moved_step(rng, step, feeds)
        return values


def moved_step(rng: np.random.Generator, step: Step, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a node with other rounding."""
    operator = step.model.graph.node[0].op_type
    inputs = moved_inputs(rng, operator, list(feeds.values()))
    results = step.run(dict(zip(feeds, inputs)))
    return dict(zip(results, moved_results(rng, operator, inputs, list(results.values()))))


def settle(case: Case, ours: Engine) -> Settled:
    """Walk the graph of a case."""
    given = dict(case.feeds) | {tensor.name: _array(tensor) for tensor in case.model.graph.initializer}
    constants = {tensor.name for tensor in case.model.graph.initializer}
    found = Settled(dict(given), given=given, constants=constants)
    opsets = {entry.domain: entry.version for entry in case.model.opset_import}
    silent = tainted(case.model, case.undefined)
    for node in case.model.graph.node:
        if not _step(node, opsets, found, ours, bool(silent & set(node.output))) and not _passed(node, opsets, found):
            found.whole = False
            return found
        if found.wrong:
            return found
    return found


def _passed(node: onnx.NodeProto, opsets: Mapping[str, int], found: Settled) -> bool:
    """Take the values of a node that cannot be run by itself from the evaluation of its own graph of values."""
    names = sorted(reads(node))
    if not all(name in found.values for name in names):
        return False
    step = Step(_untyped(node, opsets, names), _by_evaluator)
    try:
        found.values |= step.run({name: found.values[name] for name in names})
    except (ReferenceError_, onnx.shape_inference.InferenceError):
        return False
    found.steps.append(step)
    return True


def _untyped(node: onnx.NodeProto, opsets: Mapping[str, int], names: Sequence[str] = ()) -> onnx.ModelProto:
    """A model of a node, which says nothing of types."""
    inputs, outputs = ([onnx.ValueInfoProto(name=name) for name in some if name] for some in (names, node.output))
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(*entry) for entry in opsets.items()])


def _array(tensor: onnx.TensorProto) -> Any:
    array = onnx.numpy_helper.to_array(tensor)
    return array.astype(object) if array.dtype.kind in "UST" else array


def _by_evaluator(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    values = evaluate_nodes(model, feeds)
    return [values[output.name] for output in model.graph.output]


def _by_onnxruntime(change: Change) -> Engine:
    def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
        (node,) = model.graph.node
        require_exponents(node.op_type, [feeds.get(name) for name in node.input])
        changed, fed = change(*time_first(model, feeds))
        results = batch_first(model, run_onnxruntime(changed, fed))
        elements = [o.type.tensor_type.elem_type for o in model.graph.output]
        return [r.astype(numpy_type(e)) if e else r for r, e in zip(results, elements)]

    return run


def _references(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[dict[str, Engine], dict[str, list[Any]]]:
    """The references that can run a model of one node, and its outputs by each."""
    engines: dict[str, Engine] = {}
    found: dict[str, list[Any]] = {}
    for name, engine in _REFERENCES.items():
        if name == IN_FLOAT32 and "onnxruntime" in found:
            break
        with contextlib.suppress(ReferenceError_):
            found[name] = engine(model, feeds)
            engines[name] = engine
    return engines, found


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
    """The results of `time_first` as the model itself returns them."""
    if not _is_batch_first(model):
        return results
    orders = {4: (2, 0, 1, 3), 3: (1, 0, 2)}
    return [np.ascontiguousarray(result.transpose(orders[result.ndim])) for result in results]


def _of_known_opset(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """The model at the newest opset that onnxruntime knows, where the operator is the same there."""
    (node,), opset = model.graph.node, model.opset_import[0].version
    if node.domain or opset <= NEWEST_KNOWN or onnx.defs.get_schema(node.op_type, opset).since_version > NEWEST_KNOWN:
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
        fed = {n: v.astype(np.float32) if element_of(v) in others else v for n, v in feeds.items()}
    if any((np.isfinite(wide(v)) & ~np.isfinite(wide(fed[n]))).any() for n, v in feeds.items() if fed[n] is not v):
        raise ReferenceError_("numbers beyond float32")
    return changed, fed


IN_FLOAT32 = "onnxruntime in float32"
_REFERENCES: dict[str, Engine] = {
    "onnx": _by_evaluator,
    "onnxruntime": _by_onnxruntime(_of_known_opset),
    IN_FLOAT32: _by_onnxruntime(_in_float32),
}


def _step(node: onnx.NodeProto, opsets: Mapping[str, int], found: Settled, ours: Engine, silent: bool) -> bool:
    """Settle one node; False where it cannot be run by itself."""
    if node.op_type == "Constant":
        found.values |= Step(_untyped(node, opsets), _by_evaluator).run({})
        found.given[node.output[0]] = found.values[node.output[0]]
        found.constants.add(node.output[0])
        return True
    feeds = {name: found.values.get(name) for name in sorted(reads(node))}
    if not all(hasattr(value, "dtype") for value in feeds.values()):
        return False  # a sequence, whose type its items do not tell
    types = {name: value_type(value, element_of(value)) for name, value in feeds.items()}
    try:
        model = one_node_model(node, types, opsets[""], {d: v for d, v in opsets.items() if d})
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    engines, results = _references(model, feeds)
    if not engines:
        return False
    if silent:
        _take(found, Step(model, next(iter(engines.values()))), next(iter(results.values())))
        return True
    constants = {name for name in feeds if name in found.constants}
    try:
        made = ours(*_with_constants(model, feeds, constants))
    except TilewrightError as error:
        found.wrong = f"{node.op_type}, alone: {error}"
        return True
    _decide(found, Step(model, ours), feeds, made, engines, results)
    return True


def _with_constants(
    model: onnx.ModelProto, feeds: Mapping[str, Any], names: Set[str]
) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """The model in which those of its inputs are initializers, as some operators need them."""
    if model.graph.node[0].domain not in CONSTANT_WEIGHTS or not names:
        return model, feeds
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    left = [value for value in model.graph.input if value.name not in names]
    del changed.graph.input[:]
    changed.graph.input.extend(left)
    changed.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[name], name) for name in sorted(names))
    return changed, {name: value for name, value in feeds.items() if name not in names}


def _take(found: Settled, step: Step, results: list[Any]) -> None:
    """Settle on the results of an engine."""
    found.values |= dict(zip((output.name for output in step.model.graph.output), results))
    found.steps.append(step)


def _decide(
    found: Settled,
    step: Step,
    feeds: Mapping[str, Any],
    made: list[Any],
    engines: Mapping[str, Engine],
    results: Mapping[str, list[Any]],
) -> None:
    """Settle on the results of the engine that ours agrees with, or on ours where references are known to be off."""
    what = _called(step.model.graph.node[0], feeds, next(iter(results.values())))
    faults = {
        e: _first_fault(Step(step.model, engines[e]), feeds, made, v, e == IN_FLOAT32) for e, v in results.items()
    }
    if any(faults.values()) and not all(faults.values()):
        found.disagreements.append(what)
    right = [engine for engine, fault in faults.items() if not fault]
    if not right and any(_are_neighbours(step.model.graph.node[0], made, values) for values in results.values()):
        _take(found, step, made)
        return
    if right:
        equal = [e for e in right if not any(differs(a, b) for a, b in zip(made, results[e]))]
        engine = (equal or right)[0]
        # float32 confirms what other floats are, and does not replace it
        _take(found, *(step, made) if engine == IN_FLOAT32 else (Step(step.model, engines[engine]), results[engine]))
        return
    first, *others = results
    agree = not any(_first_fault(Step(step.model, engines[e]), feeds, results[first], results[e]) for e in others)
    if is_known(what, tuple(engines) if agree else ()):
        found.disagreements.append(f"{what}, by {' and '.join(engines)}")
        _take(found, step, made)
    elif agree:
        found.wrong = f"{what}: beside {' and '.join(engines)} {next(iter(faults.values()))}"
    else:
        found.wrong = f"{what}: all three differ: {'; '.join(faults.values())[:160]}"


def _are_neighbours(node: onnx.NodeProto, ours: list[Any], theirs: list[Any]) -> bool:
    """True if the codes of a quantized operator are one apart at most: what lies between two is rounded."""
    if not node.op_type.startswith("Q") or any(v.dtype.kind not in "iu" or v.itemsize > 1 for v in (*ours, *theirs)):
        return False
    pairs = zip(ours, theirs)
    return all(a.shape == b.shape and np.abs(a.astype(int) - b.astype(int)).max(initial=0) <= 1 for a, b in pairs)


def _first_fault(
    step: Step, feeds: Mapping[str, Any], ours: list[Any], theirs: list[Any], in_float32: bool = False
) -> str:
    """The defect of the first wrong result of ours, beside that of the step's engine; or nothing."""
    if in_float32:
        return next((f for a, b in zip(ours, theirs) if (f := _far(a, b))), "")
    suspects = [i for i, (a, b) in enumerate(zip(ours, theirs)) if differs(a, b)]
    if not suspects:
        return ""
    runs, fault, rng = [theirs], "", np.random.default_rng(0)
    for count in (RUNS, 4 * RUNS):  # more of them where a few do not explain it
        try:
            runs += [list(moved_step(rng, step, feeds).values()) for _ in range(count)]
        except ReferenceError_:
            return described(
                ours[suspects[0]], theirs[suspects[0]], differences(ours[suspects[0]], theirs[suspects[0]])
            )
        fault = next((f for i in suspects if (f := verdict([run[i] for run in runs], ours[i], theirs[i]))), "")
        if not fault:
            break
    return fault


def _far(ours: Any, theirs: Any) -> str:
    """The defect of ours beside a result of less precision."""
    if not isinstance(ours, np.ndarray) or not is_float(element_of(theirs)):
        return described(ours, theirs, found) if np.any(found := differences(ours, theirs)) else ""
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    with np.errstate(all="ignore"):
        near = np.isclose(wide(ours), wide(theirs), 1e-2 if ours.dtype.itemsize < 4 else 1e-4, 1e-4, equal_nan=True)
    return "" if near.all() else f"not near: {described(ours, theirs, ~near)}"


def _called(node: onnx.NodeProto, feeds: Mapping[str, Any], results: list[Any]) -> str:
    """A node in words: its operator, and the type that tells most, that of its first floats or of its first input."""
    arrays = [v for v in (*feeds.values(), *results) if hasattr(v, "dtype")]
    type_ = next((a.dtype for a in arrays if a.dtype.kind not in "iub"), arrays[0].dtype if arrays else "sequences")
    finite = all(np.isfinite(wide(v)).all() for v in feeds.values() if hasattr(v, "dtype") and is_plain_float(v))
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    bodies = [inner.op_type for entry in node.attribute for inner in entry.g.node]
    name += f"({', '.join(dict.fromkeys(bodies))})" if bodies else ""
    return f"{name} of {type_}{'' if finite else ', not finite'}"
