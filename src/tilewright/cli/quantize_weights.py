"""The report of `tilewright quantize MODEL --weights BITS`: layers with their noise, sizes and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.tables import print_table

if TYPE_CHECKING:
    from tilewright.quantize import QuantizedWeights

_COLUMNS = ("layer", "operator", "SQNR", "error", "weights", "in float")


def effect_cells(effect: Any) -> tuple[str, str]:
    """The noise and the relative error of a layer; empty where they were not measured."""
    return ("", "") if effect is None else (f"{effect.decibels:.1f} dB", f"{effect.error:.2%}")


def print_columns(columns: Sequence[str], rows: Sequence[tuple[str, ...]], spare: Sequence[str]) -> None:
    """Print rows of layers in columns; a narrow terminal goes without those of `spare`."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (columns, *rows))
    print_table(columns, rows, lines, spare)


def loss_lines(settings: Mapping[str, Any], losses: Mapping[str, Any]) -> Iterator[str]:
    """The measured losses of a recipe, and whether its budget holds."""
    accuracy = ""
    if "accuracy" in losses:
        accuracy = f", accuracy {losses['accuracy']:.2%} (float {losses['accuracy_float']:.2%})"
    yield f"loss     relative error {losses['relative']:.3%}, argmax differs in {losses['argmax']:.2%}{accuracy}"
    if (budget := settings["max_loss"]) is not None:
        note = "; they served the search too" if settings["held_out_served_the_search"] else ""
        yield f"budget   {budget:.3%} ({settings['measure']}): holds on the samples held out{note}"
        bound = settings.get("bound")
        if bound is None or bound > budget:
            known = "nothing" if bound is None else f"no more than {bound:.3%}"
            yield f"         so few samples show {known} for others; hold out more to be sure of the budget"
        else:
            yield f"         on others it is at most {bound:.3%}, with 95 % confidence"


def report_weights(found: QuantizedWeights, output: str, table: bool) -> None:
    """Print the layers if `table`, and a summary."""
    if table:
        _print_layers(found)
    for line in _summary(found, output):
        click.echo(line)


def _print_layers(found: QuantizedWeights) -> None:
    rows = []
    for name, choice in found.recipe.choices.items():
        codes = "" if choice.in_float else f"{choice.bits} bits, blocks of {choice.block}"
        rows.append((name, choice.operator, *effect_cells(found.effects.get(name)), codes, choice.in_float))
    print_columns(_COLUMNS, rows, ("operator", "weights"))


def _summary(found: QuantizedWeights, output: str) -> Iterator[str]:
    settings, losses = found.recipe.settings, found.recipe.losses
    bits = sorted({found.recipe.choices[name].bits for name in found.recipe.quantized})
    counts = " and ".join(map(str, bits)) or "no"
    layers = f"{len(found.recipe.quantized)} of {len(found.recipe.choices)}"
    yield f"{output}: weights of {layers} layers in {counts} bits, rounding {settings['rounding']}"
    before, after = found.weight_bytes
    yield f"weights  {before / 1e6:.2f} MB in float32, {after / 1e6:.2f} MB as codes with scales"
    if "samples" not in settings:
        yield "loss     not measured: there was no data; SQNR and error are those of the weights"
        return
    parts = settings["samples"]
    counts = f"{parts['calibration']} for rounding, {parts['search']} to choose layers, {parts['held_out']} held out"
    yield f"samples  {counts}"
    yield from loss_lines(settings, losses)
