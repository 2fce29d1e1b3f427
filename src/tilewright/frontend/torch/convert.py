"""A whole exported program to a Relay module: constants and inputs by the signature, the graph, the outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import InternalError, ModelError, UnsupportedError
from tilewright.frontend.builders.complex_numbers import Complex, of_last_axis, to_last_axis
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.torch.decompose import contradiction, decomposed
from tilewright.frontend.torch.importer import GraphImporter, value_of
from tilewright.frontend.torch.load import load_program
from tilewright.frontend.torch.types import names_of_sizes
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple, Var, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import fix_sizes
from tilewright.relay.ir.type_of import tensor_type_of


def convert_program(source: Any, input_shapes: Mapping[str, Sequence[Any]] | None) -> tuple[IRModule, list[InputSpec]]:
    """See `tilewright.frontend.torch.from_pytorch`."""
    program = load_program(source)
    try:
        return _converted(program, input_shapes)
    except InternalError:
        wrong = contradiction(program) if isinstance(source, str | os.PathLike) else None
        if wrong is None:
            raise
        raise ModelError(f"{os.fspath(source)} is damaged: {wrong}") from None


def _converted(given: Any, input_shapes: Mapping[str, Sequence[Any]] | None) -> tuple[IRModule, list[InputSpec]]:
    program = decomposed(given)
    importer = GraphImporter()
    params = _inputs(program, importer)
    importer.run(program.graph)
    report = importer.report()
    if report:
        raise UnsupportedError(f"the PyTorch program needs what Tilewright does not support:\n{report}")
    names, results = _outputs(program, importer)
    body = results[0] if len(results) == 1 else Tuple(results)
    main = Function(params, body, attrs={"output_names": tuple(names)})
    if input_shapes:
        main = fix_sizes(main, input_shapes)
    specs = [InputSpec(param.name, tensor_type_of(param)) for param in main.params]
    return IRModule({GlobalVar("main"): main, **importer.functions}), specs


def _inputs(program: Any, importer: GraphImporter) -> list[Var]:
    """Constants for parameters and buffers, variables for the user's inputs and for buffers that change."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    importer.sizes.names = names_of_sizes(list(placeholders.values()))
    changed = set(program.graph_signature.buffers_to_mutate.values())
    params: list[Var] = []
    states: list[Var] = []
    for spec in program.graph_signature.input_specs:
        node = placeholders[spec.arg.name]
        kind, value = spec.kind.name, node.meta.get("val")
        if kind == "USER_INPUT":
            if not hasattr(value, "dtype"):
                importer.values[node] = importer.number(value, node.name) if value is not None else None
                continue
            params.append(var(node.name, importer.sizes.tensor_type(value, f"the input {node.name}")))
            importer.values[node] = of_last_axis(params[-1]) if value.dtype.is_complex else params[-1]
        elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            if spec.target in changed:
                states.append(var(spec.target, importer.sizes.tensor_type(value, f"the buffer {spec.target}")))
                importer.values[node] = of_last_axis(states[-1]) if value.dtype.is_complex else states[-1]
            elif node.users:
                importer.values[node] = value_of(_tensor(program, spec.target), spec.target)
        elif kind == "TOKEN":
            importer.values[node] = None
        elif node.users:
            raise UnsupportedError(f"the input {node.name} of kind {kind} is not supported")
    return [*params, *states]


def _tensor(program: Any, target: str) -> Any:
    return program.state_dict[target] if target in program.state_dict else program.constants[target]


def _outputs(program: Any, importer: GraphImporter) -> tuple[list[str], list[Expr]]:
    """The tensors among the outputs, then the new values of what changes, under the names of buffers and inputs."""
    kept: list[tuple[str, Expr]] = []
    changes: list[tuple[str, Expr]] = []
    nodes = {node.name: node for node in program.graph.nodes}
    for spec in program.graph_signature.output_specs:
        name = getattr(spec.arg, "name", "")
        value = importer.values.get(nodes[name]) if name in nodes else None
        if isinstance(value, Complex):
            value = to_last_axis(value)
        if not isinstance(value, Expr):
            continue
        kind = spec.kind.name
        if kind == "TOKEN":
            continue
        if kind == "USER_OUTPUT":
            kept.append((name, value))
        elif kind in ("BUFFER_MUTATION", "USER_INPUT_MUTATION"):
            changes.append((spec.target, value))
        else:
            raise UnsupportedError(f"the output {spec.target!r} of kind {kind} is not supported")
    if not kept and not changes:
        raise UnsupportedError("the program returns no tensor")
    names, results = zip(*kept, *changes)
    return list(names), list(results)
