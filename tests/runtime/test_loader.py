"""The loader: code and data of every kind end where they should, in pages that are either writable or executable."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.native.pool import pool_text
from tilewright.codegen.native.pool_code import compile_text
from tilewright.errors import ArtifactError
from tilewright.runtime.elf import parse_object
from tilewright.runtime.link import link
from tilewright.runtime.loader import Image, Layout, LoadedCode, load_objects
from tilewright.runtime.processor import host_architecture

HOST = host_architecture()
only_x86 = pytest.mark.skipif(HOST != "x86_64", reason="is about machine code of x86-64")

VECTORS = """
@table = internal constant [32 x float] [float 0.0, float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0,
 float 7.0, float 8.0, float 9.0, float 10.0, float 11.0, float 12.0, float 13.0, float 14.0, float 15.0, float 16.0,
 float 17.0, float 18.0, float 19.0, float 20.0, float 21.0, float 22.0, float 23.0, float 24.0, float 25.0, float 26.0,
 float 27.0, float 28.0, float 29.0, float 30.0, float 31.0], align 64
@byte = internal constant i8 3, align 1
define i64 @address() {
  %a = ptrtoint ptr @table to i64
  ret i64 %a
}
define void @double(ptr %x, i8 %i) {
  %b = load volatile i8, ptr @byte
  %v = load <16 x float>, ptr %x, align 4
  %p = getelementptr [32 x float], ptr @table, i8 0, i8 %i
  %t = load <16 x float>, ptr %p, align 64
  %w = fadd <16 x float> %v, %t
  %c = fmul <16 x float> %w, <float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0, float 7.0, float 8.0,
    float 9.0, float 10.0, float 11.0, float 12.0, float 13.0, float 14.0, float 15.0, float 16.0>
  store <16 x float> %c, ptr %x, align 4
  ret void
}
"""
DATA = """
@zero = internal global [5000 x i64] zeroinitializer, align 64
@start = internal global i32 41
@shared = common global i32 0, align 4
@pointer = global ptr @start
@there = external global i32
define i32 @next() {
  %p = load ptr, ptr @pointer
  %v = load i32, ptr %p
  %n = add i32 %v, 1
  store i32 %n, ptr %p
  %z.p = getelementptr [5000 x i64], ptr @zero, i64 0, i64 4999
  %z = load i64, ptr %z.p
  %z.32 = trunc i64 %z to i32
  %s = load i32, ptr @shared
  %t = load i32, ptr @there
  %a = add i32 %n, %z.32
  %b = add i32 %a, %s
  %c = add i32 %b, %t
  ret i32 %c
}
"""
CALLER = "declare i32 @far()\ndefine i32 @near() {\n %x = call i32 @far()\n %y = add i32 %x, 1\n ret i32 %y\n}\n"
SWITCH = """
define void @choose(i64 %i, ptr %out, ptr %x) {
  switch i64 %i, label %other [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e ]
a:
  store volatile i64 17, ptr %out
  ret void
b:
  %y = load volatile i64, ptr %x
  store volatile i64 %y, ptr %out
  ret void
c:
  %v = load volatile i64, ptr %x
  %w = mul i64 %v, %v
  store volatile i64 %w, ptr %out
  ret void
d:
  store volatile i64 5, ptr %x
  store volatile i64 -5, ptr %out
  ret void
e:
  %q = load volatile i64, ptr %x
  %r = sdiv i64 1000, %q
  store volatile i64 %r, ptr %out
  ret void
other:
  store volatile i64 0, ptr %out
  ret void
}
"""


def load(*texts: str, **imports: int) -> LoadedCode:
    return load_objects([compile_text(text) for text in texts], imports, HOST)


def function(code: LoadedCode, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    found: Any = ctypes.CFUNCTYPE(result, *arguments)(code.symbols[name])
    found.code = code  # keeps the memory
    return found


@functools.cache
def compiled(text: str, triple: str) -> bytes:
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    module.triple = triple
    return (
        llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic", codemodel="small").emit_object(module)
    )


ARM = "aarch64-unknown-linux-gnu"
X86 = "x86_64-unknown-linux-gnu"


def test_vector_constants_are_aligned() -> None:
    code = load(VECTORS)
    assert function(code, "address", ctypes.c_int64)() % 64 == 0
    data = np.ones(16, np.float32)
    function(code, "double", None, ctypes.c_void_p, ctypes.c_int8)(data.ctypes.data, 16)
    np.testing.assert_array_equal(data, (np.arange(16) + 17) * np.arange(1, 17))


def test_data_zeros_pointers_and_slots() -> None:
    there = ctypes.c_int32(1000)
    for _ in range(2):  # each load has data of its own
        code = load(DATA, there=ctypes.addressof(there))
        run = function(code, "next", ctypes.c_int32)
        assert [run(), run()] == [1042, 1043]
        assert code.symbols["shared"] % 4 == 0
        ctypes.c_int32.from_address(code.symbols["shared"]).value = 100
        assert run() == 1144


def test_one_common_symbol_for_all_objects() -> None:
    small = "@shared = common global i32 0, align 4\ndefine ptr @mine() {\n ret ptr @shared\n}\n"
    large = (
        "@shared = common global [100 x i32] zeroinitializer, align 64\ndefine ptr @yours() {\n ret ptr @shared\n}\n"
    )
    code = load(small, large)
    addresses = [function(code, name, ctypes.c_int64)() for name in ("mine", "yours")]
    assert addresses == [code.symbols["shared"]] * 2 and addresses[0] % 64 == 0


def test_a_switch_jumps_through_its_table() -> None:
    choose = function(load(SWITCH), "choose", None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    out, x = ctypes.c_int64(), ctypes.c_int64(4)
    results = []
    for i in (0, 1, 2, 4, 3, 4, 5):
        choose(i, ctypes.addressof(out), ctypes.addressof(x))
        results.append(out.value)
    assert results == [17, 4, 16, 250, -5, 200, 0]


def test_weak_definitions_give_way() -> None:
    weak, strong = "define weak i32 @f() {\n ret i32 1\n}\n", "define i32 @f() {\n ret i32 2\n}\n"
    for texts in ((weak, strong), (strong, weak), (weak, strong, weak)):
        assert function(load(*texts), "f", ctypes.c_int32)() == 2
    assert function(load(weak, weak), "f", ctypes.c_int32)() == 1
    with pytest.raises(ArtifactError, match="'f' is defined twice"):
        load(strong, strong)


def test_a_weak_symbol_may_be_missing() -> None:
    text = "@absent_everywhere = extern_weak global i8\ndefine i64 @where() {\n"
    text += " %a = ptrtoint ptr @absent_everywhere to i64\n ret i64 %a\n}\n"
    assert function(load(text), "where", ctypes.c_int64)() == 0


@only_x86
def test_calls_that_do_not_reach_go_through_a_stub() -> None:
    code_bytes = bytes.fromhex("b82a000000c3")  # mov $42, %eax; ret
    with far_memory(4096) as far:
        ctypes.memmove(far, code_bytes, len(code_bytes))
        code = load(CALLER, far=far)
        assert abs(code.symbols["near"] - far) > 1 << 31
        assert function(code, "near", ctypes.c_int32)() == 43


@contextmanager
def far_memory(size: int) -> Iterator[int]:
    """Executable memory far from everything that the system positions itself, which lies in the upper half of its
    space.

    The address is a wish, taken where nothing is there yet. (MAP_32BIT asks for one gigabyte that may be full.)
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    address = libc.mmap(1 << 42, size, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    try:
        yield address
    finally:
        libc.munmap(address, size)


def test_pages_are_writable_or_executable_but_not_both() -> None:
    code = load(DATA, VECTORS, there=code_of_nothing())
    assert permissions(code.symbols["next"]) == "r-xp"
    assert permissions(function(code, "address", ctypes.c_int64)()) == "r--p"
    assert permissions(code.symbols["pointer"]) == permissions(code.symbols["shared"]) == "rw-p"


def test_memory_is_given_back() -> None:
    code = load(VECTORS)
    position = code.symbols["double"]
    assert permissions(position) == "r-xp"
    del code
    assert permissions(position) != "r-xp"


def code_of_nothing() -> int:
    return ctypes.addressof(_nothing)


_nothing = ctypes.c_int32(0)


def permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, flags, *_ = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            return flags
    return ""


def test_objects_of_another_machine_are_refused() -> None:
    other = compiled(CALLER, ARM if HOST == "x86_64" else X86)
    with pytest.raises(ArtifactError, match=f"the object code is not for {HOST}"):
        load_objects([other], {}, HOST)


def relocated(code: bytes, base: int, **imports: int) -> Image:
    return Image(Layout([parse_object(code)]), base, imports)


def test_absolute_words_where_they_fit() -> None:
    found = parse_object(compiled("@v = global i32 7\ndefine ptr @where() {\n ret ptr @v\n}\n", X86))
    rows = {i: [row._replace(kind=11, addend=0) for row in rows] for i, rows in found.relocations.items()}
    layout = Layout([dataclasses.replace(found, relocations=rows)])
    image = Image(layout, 0x10000, {})
    assert struct.pack("<I", image.symbols["v"]) in image.contents
    with pytest.raises(ArtifactError, match=r"relocation R_X86_64_32S to 'v': 0x7f.* does not fit into 4 bytes"):
        Image(layout, 0x7F00_0000_0000, {})


def test_thread_local_data_and_initializers_are_refused() -> None:
    with pytest.raises(ArtifactError, match=r"section '\.t(bss|data)' of the object code is of a kind"):
        relocated(compiled("@t = thread_local global i32 3\ndefine ptr @f() {\n ret ptr @t\n}\n", X86), 0x10000)
    starter = "define void @f() {\n ret void\n}\n@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
    starter += "[{ i32, ptr, ptr } { i32 65535, ptr @f, ptr null }]\n"
    with pytest.raises(ArtifactError, match=r"section '\.(init_array|ctors)' of the object code is of a kind"):
        relocated(compiled(starter, X86), 0x10000)


def test_aarch64_addresses_in_pairs_of_instructions() -> None:
    """Decode what the loader made of ADRP and the instruction after it: together they are the symbol's address."""
    code = compiled(pool_text("aarch64"), ARM)
    one, base = parse_object(code), 0x7F12_3456_7000
    libc = {s.name: 0x7F10_0000_0000 + 64 * i for i, s in enumerate(one.symbols) if s.section == 0}
    layout = Layout([one])
    image = Image(layout, base, libc)
    shifts = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
    checked = calls = 0
    for section, rows in one.relocations.items():
        start = layout.sections.get((0, section))
        if start is None:
            continue
        for row in rows:
            position, symbol = start + row.offset, one.symbols[row.symbol]
            word = struct.unpack_from("<I", image.contents, position)[0]
            if symbol.section:
                target = base + layout.sections[0, symbol.section] + symbol.value + row.addend
            if row.kind == 275:
                pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
                assert (base + position >> 12) + (pages ^ 1 << 20) - (1 << 20) == target >> 12
            elif row.kind in shifts:
                assert (word >> 10 & 0xFFF) << shifts[row.kind] == target & 0xFFF
            elif row.kind == 283 and symbol.section:
                assert base + position + 4 * ((word & 0x3FFFFFF ^ 1 << 25) - (1 << 25)) == target
            elif row.kind == 283:  # libc is out of reach here: a stub that jumps there
                stub = position + 4 * ((word & 0x3FFFFFF ^ 1 << 25) - (1 << 25))
                assert struct.unpack_from("<Q", image.contents, stub + 8)[0] == libc[symbol.name]
                calls += 1
            checked += 1
    assert checked > 50 and calls > 10


FUZZ = """
import random, sys
from tilewright.errors import ArtifactError
from tilewright.runtime.elf import parse_object
from tilewright.runtime.loader import Image, Layout, load_objects
rng, outcomes = random.Random(7), {True: 0, False: 0}
for path in sys.argv[2:]:
    whole = open(path, "rb").read()
    for turn in range(600):
        code = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            place = rng.randrange(len(code)) if turn % 2 else rng.randrange(max(0, len(code) - 2400), len(code))
            code[place] = rng.choice((rng.randrange(256), code[place] ^ 1 << rng.randrange(8), 255, 0))
        try:
            if turn % 3 and "x86" in path and sys.argv[1] == "x86_64":
                load_objects([bytes(code)], {"there": 4096, "tilewright_barrier": 4096}, "x86_64")
            else:
                Image(Layout([parse_object(bytes(code))]), 0x7f0000000000, {"there": 4096})
            outcomes[True] += 1
        except ArtifactError:
            outcomes[False] += 1
print(outcomes[True] > 50 and outcomes[False] > 50, outcomes)
"""


def test_damaged_objects_never_crash(tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate((DATA, SWITCH, VECTORS, CALLER.replace("@far", "@abs"))):
        for machine, triple in (("x86", X86), ("arm", ARM)):
            paths.append(tmp_path / f"{machine}{number}.o")
            paths[-1].write_bytes(compiled(text, triple))
    command = [sys.executable, "-c", FUZZ, HOST, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("True"), (done.returncode, done.stdout, done.stderr[-2000:])


def test_names_of_the_library_are_found_and_others_are_not() -> None:
    text = "declare double @erf(double)\n"
    text += "define double @f(double %x) {\n %y = call double @erf(double %x)\n ret double %y\n}\n"
    assert function(load(text), "f", ctypes.c_double, ctypes.c_double)(0.0) == 0.0
    with pytest.raises(ArtifactError, match="nothing defines 'no_such_function'"):
        load(text.replace("erf", "no_such_function"))
    with pytest.raises(ArtifactError, match="nothing defines 'g'"):
        link(compile_text(text), ["g"])


def test_symbols_in_sections_that_are_not_loaded() -> None:
    found = parse_object(compile_text(VECTORS))
    note = next(i for i, section in enumerate(found.sections) if section.name == ".note.GNU-stack")
    moved = [s._replace(section=note, value=0) if s.name == "address" else s for s in found.symbols]
    with pytest.raises(ArtifactError, match="symbol 'address' of the object code is in a section that is not loaded"):
        Image(Layout([dataclasses.replace(found, symbols=moved)]), 0x10000, {})


def test_unknown_relocations_are_named() -> None:
    for triple in (X86, ARM):
        found = parse_object(compiled(CALLER, triple))
        strange = {i: [row._replace(kind=1031) for row in rows] for i, rows in found.relocations.items()}
        with pytest.raises(ArtifactError, match="relocation type 1031 to 'far': this type is unknown to the loader"):
            Image(Layout([dataclasses.replace(found, relocations=strange)]), 0x10000, {"far": 0x20000})
