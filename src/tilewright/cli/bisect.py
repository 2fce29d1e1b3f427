"""`tilewright bisect MODEL`: the first node whose result differs from another engine's, and a model that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.cli.bisection import Bisection, Finding
from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import BOUND, ModelOptions, model_options, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.reference import advice, check_against, reference_of
from tilewright.cli.rounding import is_step
from tilewright.cli.run import store
from tilewright.frontend.bounds import Bounds, bounds_of
from tilewright.frontend.comparison import compare_values
from tilewright.frontend.reference import Graph, Reference

Array = np.ndarray[Any, Any]


@click.command("bisect")
@click.argument("model")
@click.option("--against", help="the engine to compare with  [default: the format's own; for ONNX onnxruntime]")
@click.option("--rtol", type=BOUND, help="bound on max|ours - ref| / max|ref|  [default: by data type]")
@click.option("--atol", type=BOUND, help="absolute part of the bound  [default: by data type]")
@click.option("-o", "--output", help="where to write the minimal model  [default: bisect.onnx, of ONNX]")
@input_options
@model_options
def bisect_command(
    model: str,
    against: str | None,
    rtol: float | None,
    atol: float | None,
    output: str | None,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Find the first node of MODEL whose result differs from the reference's; exit status 1 if there is one.

    Branches are followed as these inputs take them. Beside the minimal model its inputs are written, as .npz. With
    several seeds, the first whose outputs differ is searched.
    """
    require_model(model, "bisect")
    reference = reference_of(model)
    against = check_against(reference, against, inner=True)
    output = output or f"bisect{reference.suffix}"
    data = str(Path(output).with_suffix(".npz"))
    for path in (output, data):
        check_writable(path, model)
    reference.load("bisect")
    options.refuse_choice("bisect")
    executable = inputs.open(model, options)
    bounds = bounds_of(reference, rtol, atol)
    for given in inputs.sets(executable, model):
        click.echo(f"{model} against {against}, {given.origin}")
        finding, search = search_for_fault(reference, given.arrays, bounds, against)
        if finding is not None:
            break
    else:
        click.echo("no output differs")
        return
    write_file(output, partial(search.graph.save, finding.minimal))
    write_file(data, partial(store, finding.inputs))
    click.echo(f"first to differ: node {finding.index}: {finding.label}")
    if is_step(finding.node.operator):
        click.echo("rounding:        a step function; its inputs agree within the bound and may lie beside a step")
    click.echo(f"compiled into:   {finding.kernel or 'no kernel of its own'}")
    click.echo(f"minimal model:   {output}, {search.graph.size(finding.minimal)} of {len(search.graph.nodes)} nodes")
    click.echo(f"its inputs:      {data}")
    click.echo(f"compilations:    {search.compilations}")
    doubtful = search.graph.inexact_nodes(output, against)
    if doubtful:
        click.echo(advice(against, doubtful, output), err=True)
    click.get_current_context().exit(1)


def bisect(
    model: Any, inputs: Mapping[str, Array], bounds: Bounds | None = None, against: str | None = None
) -> tuple[Finding | None, Bisection]:
    """Search `model`, a path or an object in memory, on `inputs` for the first node that differs from the reference.

    Returns the finding, None where no output differs by more than its bound, and the search that was made.
    Raises `UnsupportedError` where the reference does not run the model.
    """
    reference = reference_of(model)
    return search_for_fault(reference, inputs, bounds or Bounds(), check_against(reference, against, inner=True))


def search_for_fault(
    oracle: Reference, inputs: Mapping[str, Array], allowed: Bounds, engine: str
) -> tuple[Finding | None, Bisection]:
    """As `bisect`, in the model that `oracle` has loaded."""
    graph = oracle.straight_line(inputs, engine)
    names = [name for node in graph.nodes for name in node.outputs if name]
    values = graph.values(inputs, names, engine)
    reference = {name: a for name, a in values.items() if isinstance(a, np.ndarray)}

    def differs(ours: Array, theirs: Array) -> bool:
        return not all(one.passed for one in compare_values("", ours, theirs, allowed))

    search = Bisection(graph, inputs, reference, partial(_run, graph), differs)
    return search.find(), search


def _run(graph: Graph, model: Any, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], list[tuple[str, str]]]:
    """Compile `model` for the shapes of `inputs`, without the cache: who looks for a fault must not meet old code."""
    # only when it runs: `tilewright --help` reads this module
    import tilewright as tw

    used = {name: inputs[name] for name in graph.inputs(model) if name in inputs}
    shapes = {name: array.shape for name, array in used.items()}
    executable = tw.compile(model, input_shapes=shapes, cache=False)
    results = executable.run(used)
    kernels = [(kernel.name, kernel.source_text) for kernel in executable.manifest.kernels]
    return {spec.name: np.asarray(r) for spec, r in zip(executable.outputs, results, strict=True)}, kernels
