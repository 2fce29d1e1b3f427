"""Lookups and masks: the reference executor, code for each processor, and loops without vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import tir
from tilewright.backend import build
from tilewright.codegen.llvm import emit_module
from tilewright.errors import InternalError
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.evaluate import interpret
from tilewright.tir.table_lookup import NONE, lookup, mask_bits
from tilewright.tir.transform.scalarize_vectors import scalarize_vectors

LANES = (16, 32, 64)


def _kernel(lanes: int) -> tir.PrimFunc:
    """Entries of a table by indices, then by constant ones that name none, and the mask of indices above 7."""
    table, index = tir.Buffer("table", [16], "uint8"), tir.Buffer("index", [lanes], "uint8")
    found, word = tir.Buffer("found", [2 * lanes], "uint8"), tir.Buffer("word", [1], f"uint{min(lanes, 32)}")
    zero, one = op.const(0), op.const(1)
    all_of = tir.BufferLoad(table, (tir.Ramp(zero, one, 16),))
    at = tir.BufferLoad(index, (tir.Ramp(zero, one, lanes),))
    known = tir.Shuffle(
        (tir.Ramp(op.const(0, "uint8"), op.const(1, "uint8"), 16), tir.Broadcast(op.const(NONE, "uint8"), 2)),
        [16 if lane % 3 == 0 else lane % 16 for lane in range(lanes)],
    )
    bits = min(lanes, 32)
    large = tir.BufferLoad(index, (tir.Ramp(zero, one, bits),)) > tir.Broadcast(op.const(7, "uint8"), bits)
    body = tir.seq(
        tir.BufferStore(found, lookup(all_of, at), (tir.Ramp(zero, one, lanes),)),
        tir.BufferStore(found, lookup(all_of, known), (tir.Ramp(op.const(lanes), one, lanes),)),
        tir.BufferStore(word, mask_bits(large), (zero,)),
    )
    return tir.PrimFunc("kernel", (table, index, found, word), body)


def _arrays(lanes: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arguments, and what the kernel makes of the last two."""
    rng = np.random.default_rng(lanes)
    table, index = rng.integers(0, 256, 16).astype("uint8"), rng.integers(0, 16, lanes).astype("uint8")
    known = np.array([0 if lane % 3 == 0 else table[lane % 16] for lane in range(lanes)], "uint8")
    word = np.packbits(index[:32] > 7, bitorder="little").view(f"uint{min(lanes, 32)}")
    outs = [np.zeros(2 * lanes, "uint8"), np.zeros_like(word)]
    return [table, index, *outs], [np.concatenate([table[index], known]), word]


@pytest.mark.parametrize("lanes", LANES)
def test_interpreted_compiled_and_lane_by_lane(lanes: int) -> None:
    kernel = _kernel(lanes)
    runs = [
        lambda *arrays: interpret(kernel, *arrays),
        lambda *arrays: interpret(scalarize_vectors(kernel), *arrays),
        build([kernel], Target("cpu"))["kernel"],
        build([kernel], Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"))["kernel"],
    ]
    for run in runs:
        arrays, expected = _arrays(lanes)
        run(*arrays)
        for found, wanted in zip(arrays[2:], expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("lanes", LANES)
def test_each_sixteen_lanes_look_up_in_their_own(lanes: int) -> None:
    table, index, out = (tir.Buffer(name, [lanes], "uint8") for name in ("table", "index", "out"))
    run = (tir.Ramp(op.const(0), op.const(1), lanes),)
    found = lookup(tir.BufferLoad(table, run), tir.BufferLoad(index, run))
    kernel = tir.PrimFunc("kernel", (table, index, out), tir.BufferStore(out, found, run))
    rng = np.random.default_rng(lanes)
    x, at = rng.integers(0, 256, lanes).astype("uint8"), rng.integers(0, 16, lanes).astype("uint8")
    runs = [
        lambda *arrays: interpret(kernel, *arrays),
        lambda *arrays: interpret(scalarize_vectors(kernel), *arrays),
        build([kernel], Target("cpu"))["kernel"],
        build([kernel], Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"))["kernel"],
    ]
    for function in runs:
        result = np.zeros(lanes, "uint8")
        function(x, at, result)
        np.testing.assert_array_equal(result, x[np.arange(lanes) // 16 * 16 + at])


@pytest.mark.parametrize(
    ("target", "lanes", "instruction"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", 64, "avx512.pshuf.b.512"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", 32, "avx2.pshuf.b"),
        ("llvm -mtriple=aarch64-linux-gnu", 16, "neon.tbl1"),
    ],
)
def test_the_instruction_of_the_processor(target: str, lanes: int, instruction: str) -> None:
    assert instruction in emit_module([_kernel(lanes)], Target(target)).text


def test_other_types_are_refused() -> None:
    table, index = tir.Var("t", "uint8x16"), tir.Var("i", "int8x16")
    with pytest.raises(InternalError, match="lookup takes 16 uint8"):
        lookup(table, index)
    with pytest.raises(InternalError, match="mask_bits takes"):
        mask_bits(index)
