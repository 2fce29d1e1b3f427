"""Padded rows by words: the calls that stand for loops, and the bytes that they write."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewright import te
from tilewright.backend.board.pad_rows import pad_rows
from tilewright.codegen.source.c import prelude_head
from tilewright.codegen.source.rows import row_functions
from tilewright.target import Target
from tilewright.te import lower
from tilewright.tir.expr import Call, StringImm
from tilewright.tir.stmt import For
from tilewright.tir.visitor import collect
from tilewright.topi.nn.pad import pad


def _padded(before: tuple[int, ...], after: tuple[int, ...], dtype: str = "int8") -> tuple[list[str], int]:
    x = te.placeholder((1, 5, 6, 4), dtype, name="x")
    out = pad(x, before, after, -3)
    func = lower(te.create_schedule(out.op), [x, out], name="f", target=Target("c -mcpu=cortex-m4"))
    made = pad_rows(func)
    calls = [str(one.args[0].value) for one in collect(made, Call) if isinstance(next(iter(one.args), None), StringImm)]
    return calls, len(collect(made, For))


def test_a_row_is_a_copy_or_filled() -> None:
    assert _padded((0, 1, 2, 0), (0, 1, 1, 0)) == (["tilewright_row", "tilewright_fill"], 1)


def test_rows_that_are_all_inside_need_no_condition() -> None:
    assert _padded((0, 0, 1, 0), (0, 0, 1, 0)) == (["tilewright_row"], 1)


def test_padded_channels_are_rows_of_a_pixel_and_wider_elements_stay_loops() -> None:
    assert _padded((0, 1, 1, 1), (0, 1, 1, 0)) == (["tilewright_row", "tilewright_fill"], 2)
    assert _padded((0, 1, 1, 0), (0, 1, 1, 0), "int16") == ([], 3)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
def test_rows_of_any_length_and_alignment(tmp_path: Path) -> None:
    text = f"{prelude_head()}\n{row_functions('tilewright_row(')}void row(int8_t* to, const int8_t* from, int32_t left,"
    text += " int32_t count, int32_t right, int32_t value) { tilewright_row(to, from, left, count, right, value); }\n"
    (tmp_path / "rows.c").write_text(text)
    made = tmp_path / "rows.so"
    command = [
        "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wno-unused-const-variable",
        "-Werror",
        "-fno-strict-aliasing",
        "-shared",
        "-fPIC",
    ]
    subprocess.run([*command, str(tmp_path / "rows.c"), "-o", str(made)], check=True)
    row = ctypes.CDLL(str(made)).row
    rng = np.random.default_rng(0)
    data = rng.integers(-128, 128, 200).astype(np.int8)
    for _ in range(300):
        start, at, left, count, right = (int(rng.integers(0, limit)) for limit in (8, 8, 9, 70, 9))
        out = np.full(120, 99, np.int8)
        expected = out.copy()
        expected[at : at + left + count + right] = -5
        expected[at + left : at + left + count] = data[start : start + count]
        row(ctypes.c_void_p(out.ctypes.data + at), ctypes.c_void_p(data.ctypes.data + start), left, count, right, -5)
        assert np.array_equal(out, expected)
