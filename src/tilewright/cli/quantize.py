"""`tilewright quantize MODEL --data FILE -o OUT`: a float model in 8-bit integers, and its loss, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.options import ModelOptions, Share, model_options, parse_shapes, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.quantize_weights import effect_cells, loss_lines, print_columns, report_weights
from tilewright.cli.source import freestanding_option, is_source, layout_option, source_target, write_source
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.driver.build_source import Exported
    from tilewright.quantize import Quantized, QuantizedWeights

_COLUMNS = ("layer", "operator", "SQNR", "error", "loss", "float", "integers", "codes of its data", "in float")


@click.command("quantize")
@click.argument("model")
@click.option("--data", metavar="FILE|DIR", help="typical inputs: .npz, by name, with a leading axis of samples")
@click.option(
    "-o", "--output", required=True, help="artifact (.tw), ONNX with QuantizeLinear nodes (.onnx), or C source (.c)"
)
@click.option("--method", default="mse", help="minmax, percentile, mse, entropy or best  [default: mse]")
@click.option("--rounding", default="nearest", help="codes of weights: nearest, or adaptive to the data")
@click.option("--max-loss", type=Share(), help="leave layers in float until the loss is no more, e.g. 0.5%")
@click.option("--loss", "measure", help="relative, argmax or accuracy  [default: by labels and results]")
@click.option("--labels", metavar="FILE", help="the class of each sample, .npy, to measure accuracy")
@click.option("--activations", default="uint8", help="the type of data: uint8 or int8  [default: uint8]")
@click.option("--correct-bias", is_flag=True, help="add to each channel what integers lose of it on average")
@click.option(
    "--weights", type=int, help="bits of weights, 2 to 8, in blocks; all else stays float, and no data is needed"
)
@click.option("--block", default=32, help="elements of a block of weights with one scale: 16 to 256  [default: 32]")
@click.option("--asymmetric", is_flag=True, help="a zero point for each block of weights too")
@click.option("--tables", is_flag=True, help="tables that rows are picked of (embeddings) in --weights bits, too")
@click.option("--accuracy-level", default=0, help="of products with --weights: 0 as float32 to 4  [default: 0]")
@click.option("--equalize", is_flag=True, help="move ranges of channels into weights where that lowers the error")
@click.option(
    "--objective", help="what costs more so stays in float: time (default without --target), memory, energy or none"
)
@click.option("--plot", metavar="FILE.svg", help="picture of loss against time, memory and energy, and by layer")
@click.option("--recipe", metavar="FILE", help="written with --data; without, the model is made by it again")
@freestanding_option
@layout_option
@model_options
def quantize_command(
    model: str,
    data: str | None,
    output: str,
    method: str,
    rounding: str,
    max_loss: float | None,
    measure: str | None,
    labels: str | None,
    activations: str,
    correct_bias: bool,
    weights: int | None,
    block: int,
    asymmetric: bool,
    tables: bool,
    accuracy_level: int,
    equalize: bool,
    objective: str | None,
    plot: str | None,
    recipe: str | None,
    freestanding: bool,
    layout: str | None,
    options: ModelOptions,
) -> None:
    """Quantize MODEL to 8 bits after samples of its inputs, or its weights alone to --weights; write it to OUTPUT."""
    require_model(model, "quantize")
    source = is_source(output, layout, options.target)
    to_onnx = not source and _kind(output) == ".onnx"
    if freestanding and not source:
        raise InputError("--freestanding: this is for C source; name the output .c, or add --layout")
    if layout is None:
        check_writable(output, model)
    fresh = data is not None or weights is not None
    for path in filter(None, (plot, recipe if fresh else None)):
        check_writable(path, model)
    # only when it runs: `tilewright --help` reads this module
    from tilewright.cli.progress import progress
    from tilewright.quantize import QuantizedWeights, quantize

    with progress():
        found = quantize(
            model, data, method=method, rounding=rounding, max_loss=max_loss, measure=measure, labels=labels,
            recipe=None if fresh else recipe, activations=activations, correct_bias=correct_bias,
            weights=weights, block=block, symmetric=not asymmetric, tables=tables, accuracy_level=accuracy_level,
            equalize=equalize, objective=_objective(objective, options.target), front=plot is not None,
            for_onnx=to_onnx, input_shapes=parse_shapes(options.shapes), signature=options.signature,
            outputs=options.chosen, threads=options.threads,
        )  # fmt: skip
        if source:
            _write_source(found, output, options, freestanding, layout)
        else:
            _write(found, output, options)
    if recipe is not None and fresh:
        write_file(recipe, found.recipe.save)
    if isinstance(found, QuantizedWeights):
        report_weights(found, output, fresh)
        return
    if plot is not None:
        write_file(plot, lambda path: path.write_text(found.picture(), encoding="utf-8"))
    if data is not None:
        _print_layers(found)
        _print_front(found)
    for line in _summary(found, output):
        click.echo(line)


def _objective(wanted: str | None, target: str | None) -> str | None:
    """The objective for `quantize`: times of this machine, but for another one they say nothing."""
    if wanted is None:
        return "time" if target in (None, "cpu") else None
    return None if wanted == "none" else wanted


def _kind(output: str) -> str:
    """The ending of the output's name. Raises InputError for a format that is not written."""
    kind = Path(output).suffix
    if kind not in (".tw", ".onnx"):
        raise InputError(
            f"{output}: quantized models are written as artifacts (.tw), as ONNX (.onnx) and as C source (.c); name it "
            "so"
        )
    return kind


def _write(found: Quantized | QuantizedWeights, output: str, options: ModelOptions) -> None:
    if _kind(output) == ".onnx":
        write_file(output, found.save_onnx)
        return
    made = found.compile(
        target=options.target or "cpu", threads=options.threads, cache=not options.no_cache, records=options.records
    )
    made.save(output)


def _write_source(
    found: Quantized | QuantizedWeights, output: str, options: ModelOptions, freestanding: bool, layout: str | None
) -> None:
    # only for C source
    from tilewright.compile import export_source

    target = source_target(layout, options.target)

    def export(path: str) -> Exported:
        return export_source(found.module, path, target=target or "c", freestanding=freestanding)

    write_source(export, output, target, layout)


def _print_layers(found: Quantized) -> None:
    """One row a layer: its effect on its own result and on the model's, its time, its codes, why it stays in float."""
    rows = []
    for name, choice in found.recipe.choices.items():
        listed = dict.fromkeys(f"{one.dtype}, {one.scale:.4g} x (q - {one.zero_point})" for one in choice.codes)
        codes = "" if choice.in_float else "; ".join(listed)
        alone = found.alone.get(name)
        loss = "" if alone is None else f"{alone.model_error:.3%}"
        times = [f"{cost.seconds * 1e6:.0f} us" for cost in found.costs.get(name, ())] or ["", ""]
        effect = effect_cells(found.effects.get(name, alone))
        rows.append((name, choice.operator, *effect, loss, *times, codes, choice.in_float))
    rows += [(name, *[""] * (len(_COLUMNS) - 2), why) for name, why in found.recipe.settings["blocked"].items()]
    print_columns(_COLUMNS, rows, ("operator", "codes of its data", "error"))


def _print_front(found: Quantized) -> None:
    """One row a point of the front."""
    for point in found.front:
        click.echo(f"{point.in_float:4} layers in float: loss {point.loss:.3%}, {point.cost.text()}")


def _summary(found: Quantized, output: str) -> Iterator[str]:
    settings, losses = found.recipe.settings, found.recipe.losses
    whole = len(found.recipe.choices) + len(settings.get("blocked", ()))
    yield f"{output}: {len(found.recipe.quantized)} of {whole} layers in integers, ranges by {settings['method']}"
    parts = settings["samples"]
    yield (
        f"samples  {parts['calibration']} for ranges, {parts['search']} to choose layers, {parts['held_out']} held out"
    )
    yield from loss_lines(settings, losses)
    for kind, text in settings.get("costs", {}).items():
        yield f"time     {text}" if kind == "whole" else f"cost     {text} in {kind}"
