"""A failing case made small: plain settings, one output, fewer nodes, for as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import onnx
from onnx import helper

from bench.fuzz.case import Case, Settings
from bench.fuzz.draft import reads
from bench.fuzz.references import ReferenceError_, evaluate_nodes, run_onnxruntime, value_type
from bench.fuzz.values import element_of


def minimize(case: Case, fails: Callable[[Case], bool], trials: int = 80) -> Case:
    """The smallest case found that `fails`, in at most so many trials."""
    progress = True
    while progress and trials > 0:
        progress = False
        for smaller in candidates(case):
            trials -= 1
            if fails(smaller):
                case, progress = smaller, True
                break
            if trials <= 0:
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Cases that are smaller by one thing, those that take away most first."""
    if case.settings != Settings(opt_level=case.settings.opt_level):
        yield replace(case, settings=Settings(opt_level=case.settings.opt_level))
    if case.settings.opt_level != 3:
        yield replace(case, settings=replace(case.settings, opt_level=3))
    graph = case.model.graph
    if len(graph.output) > 1:
        for output in graph.output:
            yield _kept(case, list(graph.node), [output])
    if any(dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim):
        yield _closed(case)
    count = len(graph.node)
    for size in sorted({count // 2, count // 4, 1} - {0}, reverse=True):
        for start in range(0, count - size + 1, size):
            yield from _without(case, start, start + size)


def _kept(case: Case, nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto]) -> Case:
    """The case with these outputs, and of these nodes those that they need."""
    needed, kept = {output.name for output in outputs}, []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.insert(0, node)
            needed |= reads(node)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for field, values in (
        (model.graph.node, kept),
        (model.graph.output, outputs),
        (model.graph.input, [v for v in case.model.graph.input if v.name in needed]),
        (model.graph.initializer, [t for t in case.model.graph.initializer if t.name in needed]),
    ):
        del field[:]
        field.extend(values)  # type: ignore[arg-type]
    feeds = {name: value for name, value in case.feeds.items() if name in needed}
    return case.with_model(model, feeds)


def _values(case: Case) -> dict[str, Any]:
    """Every value of the graph, as far as a reference computes it."""
    try:
        return evaluate_nodes(case.model, case.feeds)
    except ReferenceError_:
        pass
    model = onnx.shape_inference.infer_shapes(case.model)
    model.graph.output.extend(model.graph.value_info)
    names = [output.name for output in model.graph.output]
    try:
        return dict(zip(names, run_onnxruntime(model, case.feeds)))
    except ReferenceError_:
        return {}


def _without(case: Case, start: int, stop: int) -> Iterator[Case]:
    """The case without some nodes: their results are fed instead, or left out."""
    nodes = list(case.model.graph.node)
    removed = {name for node in nodes[start:stop] for name in node.output if name}
    rest = nodes[:start] + nodes[stop:]
    outputs = [output for output in case.model.graph.output if output.name not in removed]
    wanted = removed & {name for node in rest for name in reads(node)}
    values = _values(case) if wanted or not outputs else {}
    if not outputs:  # what the last nodes read is looked at instead
        made = {name for node in rest for name in node.output}
        ends = sorted(made & {name for node in nodes[start:stop] for name in reads(node)} & set(values))
        outputs = [_shown(name, values[name]) for name in ends if hasattr(values[name], "dtype")]
    if not rest or not outputs:
        return
    if any(not hasattr(values.get(name), "dtype") for name in wanted):
        return
    smaller = case
    if wanted:
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        fed = {name: values[name] for name in wanted}
        model.graph.input.extend(
            helper.make_value_info(name, value_type(value, element_of(value))) for name, value in sorted(fed.items())
        )
        smaller = case.with_model(model, case.feeds | fed)
    yield _kept(smaller, rest, outputs)


def _shown(name: str, value: Any) -> onnx.ValueInfoProto:
    """An output of the rank of a value."""
    type_ = value_type(value, element_of(value))
    for dim in type_.tensor_type.shape.dim:
        dim.Clear()
    return helper.make_value_info(name, type_)


def _closed(case: Case) -> Case:
    """The case with the sizes that its inputs have."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value in model.graph.input:
        if value.type.HasField("tensor_type"):
            fed = case.feeds[value.name]
            value.type.CopyFrom(value_type(fed, element_of(fed)))
    return case.with_model(model, case.feeds)
