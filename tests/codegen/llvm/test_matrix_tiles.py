"""Functions with matrix registers: what they do first and last, and the kernel's permission."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tilewright import tir
from tilewright.codegen.llvm import emit_module
from tilewright.codegen.llvm.matrix_tiles import REFUSED
from tilewright.errors import InternalError
from tilewright.runtime.processor import may_use_tiles
from tilewright.target import Target
from tilewright.tir.matrix_tiles import tile_store, tile_zero

AMX = Target("llvm -mcpu=sapphirerapids")


def _zeros(rows: int, *more: int) -> tir.PrimFunc:
    """A function that stores a register of zeros, after setting others up with `more` rows."""
    out = tir.Buffer("out", (256,), "int32")
    others = [tile_zero(0, count) for count in more]
    return tir.PrimFunc("zeros", (out,), tir.seq(*others, tile_zero(0, rows), tile_store(0, rows, out[0], out[16])))


def test_registers_are_set_up_first_and_released_last() -> None:
    emitted = emit_module([_zeros(7)], AMX)
    body = emitted.text[emitted.text.index("define i32 @zeros(") :]
    order = ["call i1 @tiles__begin", "llvm.x86.tilezero", "llvm.x86.tilestored64", "llvm.x86.tilerelease", "ret i32 0"]
    assert [body.index(word) for word in order] == sorted(body.index(word) for word in order)
    layout = next(line for line in emitted.text.splitlines() if line.startswith("@zeros__tiles"))
    layout_bytes = [int(word.split()[1]) for word in layout[layout.index("[i8") + 1 : layout.rindex("]")].split(", ")]
    assert (layout_bytes[0], layout_bytes[16], layout_bytes[48], sum(layout_bytes)) == (1, 64, 7, 72)
    assert emitted.messages == (REFUSED,)


def test_a_register_has_one_number_of_rows() -> None:
    with pytest.raises(InternalError, match="two numbers of rows or of their bytes"):
        emit_module([_zeros(7, 8)], AMX)


#: A seccomp filter (linux/seccomp.h) under which arch_prctl fails: load the number of the call, compare, return.
_REFUSING = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 158), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(rules), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program)) == 0
import tilewright as tw
from tilewright.runtime.processor import host_features
from tilewright.target import Target
names = (*Target("cpu").features, *host_features())
print([name for name in names if name.startswith("amx")], Target("llvm -mcpu=sapphirerapids").is_host)
"""


def test_a_kernel_that_refuses_leaves_the_other_instructions() -> None:
    if not may_use_tiles():
        pytest.skip("this processor has no AMX to refuse")
    done = subprocess.run([sys.executable, "-c", _REFUSING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]", "False"]
