"""`tilewright bisect MODEL`: the first node whose result differs from another engine's, and a model that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.cli.bisection import Bisection, Finding
from tilewright.cli.inputs import complete_inputs, read_inputs
from tilewright.cli.options import ModelOptions, model_options, parse_inputs, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.reference import read_whole, values_of
from tilewright.cli.run import store
from tilewright.cli.saturation import advice, saturating_nodes
from tilewright.cli.straight_line import straight_line
from tilewright.cli.verify import compare

Array = np.ndarray[Any, Any]


@click.command("bisect")
@click.argument("model")
@click.option("--rtol", default=1e-4, show_default=True, help="bound on max|ours - ref| / max|ref|")
@click.option("--atol", default=1e-6, show_default=True, help="absolute part of the bound")
@click.option("--input", "pairs", multiple=True, metavar="NAME=FILE.npy", help="an input; the others are random")
@click.option("--seed", type=click.IntRange(min=0), help="seed of the random inputs  [default: fresh]")
@click.option("-o", "--output", default="bisect.onnx", show_default=True, help="where to write the minimal model")
@model_options
def bisect_command(
    model: str,
    rtol: float,
    atol: float,
    pairs: tuple[str, ...],
    seed: int | None,
    output: str,
    options: ModelOptions,
) -> None:
    """Find the first node of MODEL (.onnx) whose result differs from onnxruntime's; exit status 1 if there is one.

    Branches are followed as these inputs take them. Beside the minimal model its inputs are written, as .npz.
    """
    given = read_inputs(parse_inputs(pairs))
    require_model(model, "bisect")
    data = str(Path(output).with_suffix(".npz"))
    for path in (output, data):
        check_writable(path, model)
    proto = read_whole(model, "bisect")
    executable = options.open(model)
    inputs, used_seed = complete_inputs(executable.inputs, given, seed)
    click.echo(
        f"{model} against onnxruntime, {'given inputs' if used_seed is None else f'inputs from seed {used_seed}'}"
    )
    finding, search = bisect(proto, inputs, rtol, atol)
    if finding is None:
        click.echo("no output differs")
        return
    write_file(output, lambda path: path.write_bytes(finding.minimal.SerializeToString()))
    write_file(data, lambda path: store(path, finding.inputs))
    click.echo(f"first to differ: node {finding.index}: {finding.label}")
    click.echo(f"compiled into:   {finding.kernel or 'no kernel of its own'}")
    click.echo(f"minimal model:   {output}, {len(finding.minimal.graph.node)} of {len(search.model.graph.node)} nodes")
    click.echo(f"its inputs:      {data}")
    click.echo(f"compilations:    {search.compilations}")
    doubtful = saturating_nodes(output)
    if doubtful:
        click.echo(advice("onnxruntime", doubtful, output), err=True)
    click.get_current_context().exit(1)


def bisect(
    model: Any, inputs: Mapping[str, Array], rtol: float = 1e-4, atol: float = 1e-6
) -> tuple[Finding | None, Bisection]:
    """Search `model` (an `onnx.ModelProto`) on `inputs` for the first node that differs from onnxruntime's result.

    Gives the finding, None where no output differs by more than atol + rtol * max|ref|, and the search that was made.
    Raises `UnsupportedError` where onnxruntime does not run the model.
    """
    straight = straight_line(model, lambda made, names: values_of(made, inputs, names))
    names = [name for node in straight.graph.node for name in node.output if name]
    reference = {name: a for name, a in values_of(straight, inputs, names).items() if isinstance(a, np.ndarray)}

    def differs(ours: Array, theirs: Array) -> bool:
        return not compare("", np.asarray(ours), theirs, rtol, atol).passed

    search = Bisection(straight, inputs, reference, _run, differs)
    return search.find(), search


def _run(model: Any, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], list[tuple[str, str]]]:
    """Compile `model` for the shapes of `inputs`, without the cache: who looks for a fault must not meet old code."""
    # only when it runs: `tilewright --help` reads this module
    import tilewright as tw

    used = {info.name: inputs[info.name] for info in model.graph.input if info.name in inputs}
    shapes = {name: array.shape for name, array in used.items()}
    executable = tw.compile(model, input_shapes=shapes, cache=False)
    results = executable.run(used)
    kernels = [(kernel.name, kernel.source_text) for kernel in executable.manifest.kernels]
    return {spec.name: np.asarray(r) for spec, r in zip(executable.outputs, results, strict=True)}, kernels
