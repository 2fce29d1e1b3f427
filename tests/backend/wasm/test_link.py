"""The linker of WebAssembly objects: beside wasm-ld, and with objects that are none."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.backend.wasm.link import link
from tilewright.backend.wasm.object_file import read_object
from tilewright.codegen.llvm.object import emit_as_it_stands
from tilewright.errors import ArtifactError
from tilewright.target import Target

wasmtime = pytest.importorskip("wasmtime", reason="needs the package wasmtime")

#: A table of numbers, one of the addresses of functions, a call through that, a weak function, one from outside, and
#: what nothing reaches.
FIRST = """\
target triple = "wasm32-unknown-unknown"
@numbers = constant [4 x i32] [i32 3, i32 5, i32 7, i32 11], align 64
@table = internal constant [2 x ptr] [ptr @double, ptr @other]
@counter = global i32 40
declare i32 @other(i32)
declare double @exp(double)
define internal i32 @double(i32 %x) {
  %y = mul i32 %x, 2
  ret i32 %y
}
define weak i32 @weak(i32 %x) {
  ret i32 1
}
define i32 @never(i32 %x) {
  %y = call i32 @missing(i32 %x)
  ret i32 %y
}
declare i32 @missing(i32)
define i32 @pick(i32 %which, i32 %x) {
  %place = alloca [4 x i32], align 16
  %slot = getelementptr [4 x i32], ptr %place, i32 0, i32 %which
  store volatile i32 %x, ptr %slot
  %back = load volatile i32, ptr %slot
  %f.p = getelementptr [2 x ptr], ptr @table, i32 0, i32 %which
  %f = load ptr, ptr %f.p
  %made = call i32 %f(i32 %back)
  %n.p = getelementptr [4 x i32], ptr @numbers, i32 0, i32 %which
  %n = load i32, ptr %n.p
  %w = call i32 @weak(i32 %x)
  %a = add i32 %made, %n
  %b = add i32 %a, %w
  %old = load i32, ptr @counter
  %new = add i32 %old, 1
  store i32 %new, ptr @counter
  %c = add i32 %b, %new
  ret i32 %c
}
define double @power(double %x) {
  %y = call double @exp(double %x)
  ret double %y
}
"""
SECOND = """\
target triple = "wasm32-unknown-unknown"
@numbers = external constant [4 x i32]
define i32 @weak(i32 %x) {
  %p = getelementptr [4 x i32], ptr @numbers, i32 0, i32 3
  %n = load i32, ptr %p
  %y = mul i32 %n, %x
  ret i32 %y
}
define i32 @other(i32 %x) {
  %y = add i32 %x, 100
  ret i32 %y
}
"""


@cache
def objects() -> tuple[bytes, bytes]:
    target = Target("wasm")
    return emit_as_it_stands(FIRST, target), emit_as_it_stands(SECOND, target)


def instance(module: bytes) -> tuple[Any, Any]:
    store = wasmtime.Store()
    compiled = wasmtime.Module(store.engine, module)
    given = [wasmtime.Func(store, entry.type, lambda x: 2.0 * x) for entry in compiled.imports]
    return store, wasmtime.Instance(store, compiled, given).exports(store)


def linked(*exports: str) -> bytes:
    return link([read_object(data) for data in objects()], {name: name for name in exports})


def test_calls_data_tables_and_weak_functions() -> None:
    store, exports = instance(linked("pick", "power"))
    assert exports["pick"](store, 0, 9) == 18 + 3 + 99 + 41
    assert exports["pick"](store, 1, 9) == 109 + 5 + 99 + 42
    assert exports["power"](store, 4.0) == 8.0  # by the function that the host gave
    assert exports["__heap_base"].value(store) % 64 == 0


def test_the_same_as_wasm_ld(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="needs the package ziglang, for wasm-ld")
    names = ["pick", "power"]
    for index, data in enumerate(objects()):
        (tmp_path / f"{index}.o").write_bytes(data)
    options = ["--no-entry", "--allow-undefined", "--gc-sections", *(f"--export={name}" for name in names)]
    command = [sys.executable, "-m", "ziglang", "wasm-ld", *options, "0.o", "1.o", "-o", "made.wasm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (own, ours), (other, theirs) = instance(linked(*names)), instance((tmp_path / "made.wasm").read_bytes())
    for which, x in [(0, 1), (1, -5), (0, 1 << 20), (1, 77)]:
        assert ours["pick"](own, which, x) == theirs["pick"](other, which, x)


def test_only_what_is_reached_is_in_the_module() -> None:
    imports = [entry.name for entry in wasmtime.Module(wasmtime.Engine(), linked("pick")).imports]
    assert imports == []
    assert len(linked("power")) < len(linked("pick"))


def test_names_and_sections_of_the_user() -> None:
    parts = [read_object(data) for data in objects()]
    made = link(parts, {"f": "pick"}, [("about", lambda heap: b"text")], has_names=True)
    assert b"\5about" + b"text" in made and b"\4pick" in made
    assert instance(made)[1]["f"]


@pytest.mark.parametrize(
    ("exports", "data", "message"),
    [
        (["absent"], None, "nothing defines the function absent"),
        (["pick"], 0, "is defined twice"),
        (["weak"], 1, "is defined twice"),
    ],
)
def test_what_does_not_link_is_one_error(exports: list[str], data: int | None, message: str) -> None:
    parts = [*objects(), *([objects()[data]] if data is not None else [])]
    with pytest.raises(ArtifactError, match=message):
        link([read_object(one) for one in parts], {name: name for name in exports})


def test_undefined_data_is_an_error() -> None:
    with pytest.raises(ArtifactError, match="nothing defines the data numbers"):
        link([read_object(objects()[1])], {"weak": "weak"})


@pytest.mark.parametrize("data", [b"", b"\0asm", b"\x7fELF" + bytes(60), b"\0asm\1\0\0\0"])
def test_what_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(ArtifactError, match="the WebAssembly object is damaged"):
        read_object(data)


def test_an_unknown_relocation_is_named() -> None:
    data = bytearray(objects()[1])
    start = data.index(b"reloc.CODE") + len(b"reloc.CODE") + 2
    data[start] = 11
    with pytest.raises(ArtifactError, match="a relocation of kind 11, which is not linked"):
        read_object(bytes(data))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_object_is_an_error_or_a_module(data: st.DataObject) -> None:
    first, second = objects()
    changed = bytearray(first)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(8, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(8, len(changed)))]) if data.draw(st.booleans()) else bytes(changed)
    try:
        made = link([read_object(cut), read_object(second)], {"pick": "pick", "power": "power"})
    except ArtifactError:
        return
    assert made.startswith(b"\0asm")
