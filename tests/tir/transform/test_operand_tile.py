"""Tiles in shared memory: where chunks lie."""

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.evaluate import evaluate
from tilewright.tir.tensor_core import CHUNK
from tilewright.tir.transform.operand_tile import Operand, TileForm, tile_form

ROW, DEPTH = tir.Var("row", "int32"), tir.Var("depth", "int32")


def operand(dtype: str = "float16", order: str = "row") -> Operand:
    """A [64, 96] operand, in memory by rows or by depths."""
    a = Buffer("a", (64, 96) if order == "row" else (96, 64), dtype)
    value = a[ROW, DEPTH] if order == "row" else a[DEPTH, ROW]
    return Operand(value, ROW, DEPTH, tir.const(96), ())


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("length", [16, 32, 64, 128])
def test_eight_lines_lie_in_different_banks(length: int, transposed: bool) -> None:
    """The lines that a phase of `ldmatrix` reads at one chunk; and every chunk has an offset of its own."""
    rows, depth = (length, 32) if transposed else (32, length)
    form, analyzer = TileForm(operand(), rows, depth, 8, transposed), Analyzer()
    offsets = {}
    for line in range(form.lines):
        for chunk in range(form.length // form.chunk):
            found = form.offset(tir.const(line), tir.const(chunk), analyzer)
            offsets[line, chunk] = int(evaluate(found, {})) * form.operand.itemsize
    assert len(set(offsets.values())) == len(offsets) and max(offsets.values()) < 2 * rows * depth
    for first in range(0, form.lines, 8):
        for chunk in range(form.length // form.chunk):
            banks = {offsets[first + i, chunk] // CHUNK % 8 for i in range(8)}
            assert len(banks) == 8, f"lines {first} to {first + 7} at chunk {chunk}"


@pytest.mark.parametrize(
    ("dtype", "order", "width", "transposed"),
    [
        ("float16", "row", 8, False),
        ("float16", "depth", 8, True),
        ("int8", "row", 16, False),
        ("int8", "depth", 0, False),
    ],
)
def test_copies_follow_memory(dtype: str, order: str, width: int, transposed: bool) -> None:
    """Along the depth, else along the rows, which `ldmatrix` transposes 16-bit elements for."""
    analyzer = Analyzer()
    analyzer.bind(ROW, (0, 64))
    analyzer.bind(DEPTH, (0, 96))
    form = tile_form(operand(dtype, order), 64, 32, analyzer)
    assert (form.width, form.transposed) == (width, transposed)
    assert tile_form(operand(dtype, order), 64, 32, analyzer, transposes=False).transposed is False
