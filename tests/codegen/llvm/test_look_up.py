"""Look-ups in a table of sixteen by the instructions of each processor, and what they return on this one."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.codegen.llvm import assembly, emit_module
from tilewright.errors import InternalError
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.look_up import look_up

TABLE = np.random.default_rng(3).standard_normal(16).astype(np.float32)


def _kernel(lanes: int, target: Target, table: np.ndarray = TABLE):
    index = te.placeholder((64,), "int32", name="index")
    out = te.compute((64,), lambda i: look_up(index(i), table.tolist()), name="out")
    s = te.create_schedule(out.op)
    _, inner = s[out].split(s[out].op.axis[0], factor=lanes)
    s[out].vectorize(inner)
    return te.lower(s, [index, out], "kernel", target=target)


@pytest.mark.parametrize(
    ("name", "lanes", "instruction", "count"),
    [
        ("llvm -mcpu=znver4", 16, "perm", 1),
        ("llvm -mcpu=haswell", 8, "perm", 2),
        ("llvm -mcpu=x86-64-v2", 4, "blendv", 15),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon", 4, "tbl", 1),
    ],
)
def test_tables_are_read_by_the_instruction_of_the_processor(name, lanes, instruction, count):
    target = Target(name)
    text = assembly(emit_module([_kernel(lanes, target)], target).text, target)
    found = [line for line in text.splitlines() if line.strip().startswith(("v" + instruction, instruction))]
    assert len(found) >= count


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("entries", [2, 4, 16])
def test_other_bits_of_an_index_do_not_count(lanes, entries):
    target, table = Target("cpu"), TABLE[:entries]
    index = np.random.default_rng(4).integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
    out = np.empty(64, np.float32)
    build(_kernel(lanes, target, table), threads=1)["kernel"](index, out)
    np.testing.assert_array_equal(out, table[index & (entries - 1)])


def test_tables_of_other_lengths_are_refused():
    with pytest.raises(InternalError, match="a look-up takes int32 and 1, 2, 4, 8 or 16 numbers, not int32, 3"):
        look_up(op.const(1), [1.0, 2.0, 3.0])
