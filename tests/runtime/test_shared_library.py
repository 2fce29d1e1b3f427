"""Shared libraries written without a linker: loaded by `dlopen`, and their tables as other tools read them."""

from __future__ import annotations

import ctypes
import math
import struct
from pathlib import Path

import pytest

from tilewright.codegen.native.pool_code import compile_text
from tilewright.errors import ArtifactError
from tilewright.runtime.processor import host_architecture
from tilewright.runtime.shared_library import exported_names, write_shared_library

FIRST = """
@start = internal global i32 41
@zeros = internal global [5000 x i64] zeroinitializer, align 64
@pointer = global ptr @start
@there = external global i32
@table = internal constant [2 x ptr] [ptr @start, ptr @there]
declare double @exp(double)
declare i32 @other(i32)
define double @both(double %x, i32 %i) {
  %y = call double @exp(double %x)
  %k = call i32 @other(i32 %i)
  %z = sitofp i32 %k to double
  %s = fadd double %y, %z
  ret double %s
}
define i32 @through() {
  %p = load volatile ptr, ptr @pointer
  %v = load i32, ptr %p
  %w = add i32 %v, 1
  store i32 %w, ptr %p
  %q = getelementptr [2 x ptr], ptr @table, i64 0, i64 1
  %t = load volatile ptr, ptr %q
  %u = load i32, ptr %t
  %r = add i32 %w, %u
  ret i32 %r
}
"""
SECOND = """
@there = global i32 100
define i32 @other(i32 %i) {
  %j = mul i32 %i, 3
  ret i32 %j
}
"""


def objects(architecture: str = "") -> list[bytes]:
    return [compile_text(text, architecture or host_architecture()) for text in (FIRST, SECOND)]


def test_a_library_is_loaded_and_called(tmp_path: Path) -> None:
    blobs = {"notes": b"some bytes" * 1000, "more": b"\x07"}
    write_shared_library(tmp_path / "lib.so", objects(), {"sum": "both", "next": "through", "data": "pointer"}, blobs)
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    library.sum.restype, library.sum.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_int]
    assert library.sum(2.0, 5) == math.exp(2.0) + 15
    assert [library.next() for _ in range(3)] == [142, 143, 144]
    assert ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "notes")), 10000) == blobs["notes"]
    assert ctypes.addressof(ctypes.c_char.in_dll(library, "more")) % 64 == 0
    for hidden in ("both", "other", "through"):
        assert not hasattr(library, hidden)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_the_tables_of_a_library(tmp_path: Path, architecture: str) -> None:
    """No page is writable and executable, and the names are found by the hash table."""
    write_shared_library(tmp_path / "lib.so", objects(architecture), {"sum": "both"}, {"notes": b"x"})
    assert sorted(exported_names(tmp_path / "lib.so")) == ["notes", "sum"]
    data = (tmp_path / "lib.so").read_bytes()
    rows = [struct.unpack_from("<IIQQQQQQ", data, 64 + 56 * i) for i in range(struct.unpack_from("<H", data, 56)[0])]
    assert all(row[1] & 3 != 3 for row in rows) and all(row[2] % 4096 == row[3] % 4096 for row in rows)
    assert [row[1] for row in rows if row[0] == 1] == [4, 5, 6, 6, 4]


def test_a_stub_of_aarch64_reads_the_slot_of_its_symbol(tmp_path: Path) -> None:
    """adrp and ldr of the stub, taken apart, give the address that the relocation of the symbol names."""
    write_shared_library(tmp_path / "lib.so", objects("aarch64"), {"sum": "both"})
    data = (tmp_path / "lib.so").read_bytes()
    position = next(at for at in range(0, len(data), 4) if data[at + 8 : at + 12] == struct.pack("<I", 0xD61F0200))
    page, load = struct.unpack_from("<II", data, position)
    high = (page >> 29 & 3) | (page >> 5 & 0x7FFFF) << 2
    slot = (position & ~0xFFF) + ((high - (1 << 21) if high >> 20 else high) << 12) + (load >> 10 & 0xFFF) * 8
    dynamic = next(row for row in _segments(data) if row[0] == 2)
    tags = dict(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    found = list(struct.iter_unpack("<QQq", data[tags[7] : tags[7] + tags[8]]))
    assert [info & 0xFFFFFFFF for at, info, _ in found if at == slot] == [1025]


def _segments(data: bytes) -> list[tuple[int, ...]]:
    count = struct.unpack_from("<H", data, 56)[0]
    return [struct.unpack_from("<IIQQQQQQ", data, 64 + 56 * i) for i in range(count)]


def test_what_cannot_be_a_library(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nothing defines 'absent'"):
        write_shared_library(tmp_path / "lib.so", objects(), {"sum": "absent"})
    with pytest.raises(ArtifactError, match="one processor"):
        write_shared_library(tmp_path / "lib.so", [objects("x86_64")[0], objects("aarch64")[1]], {})
    with pytest.raises(ArtifactError, match="cannot write"):
        write_shared_library(tmp_path / "absent" / "lib.so", objects(), {})
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ArtifactError, match="no shared library"):
        exported_names(tmp_path / "text.so")
