"""Linking: bundles of objects that refer to each other, symbols found late, and what does not link."""

from __future__ import annotations

import ctypes

import pytest

from tilewright.codegen.native.pool_code import compile_text
from tilewright.errors import ArtifactError
from tilewright.runtime.link import bundle_objects, link, split_objects

CALLEE = "define i32 @seven() {\n ret i32 7\n}\n"
CALLER = "declare i32 @seven()\ndefine i32 @eight() {\n %x = call i32 @seven()\n %y = add i32 %x, 1\n ret i32 %y\n}\n"
LIBM = "declare double @pow(double, double)\ndefine double @cube(double %x) {\n"
LIBM += " %y = call double @pow(double %x, double 3.0)\n ret double %y\n}\n"


def test_objects_of_a_bundle_see_each_other() -> None:
    parts = [compile_text(CALLER), compile_text(CALLEE)]
    bundle = bundle_objects(parts)
    assert (
        split_objects(bundle) == parts
        and split_objects(parts[0]) == parts[:1]
        and bundle_objects(parts[:1]) == parts[0]
    )
    linked = link(bundle, ["eight"])
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(linked.addresses["eight"])() == 8
    assert linked.find("seven") and linked.find("nine") is None


def test_a_bundle_within_a_bundle() -> None:
    inner = bundle_objects([b"one", b"other"])
    assert split_objects(bundle_objects([inner])) == [inner]
    assert split_objects(bundle_objects([inner, b"third"])) == [inner, b"third"]


def test_two_libraries_may_define_one_symbol() -> None:
    first, second = link(compile_text(CALLEE), ["seven"]), link(compile_text(CALLEE.replace("7", "9")), ["seven"])
    results = [ctypes.CFUNCTYPE(ctypes.c_int32)(one.addresses["seven"])() for one in (first, second)]
    assert results == [7, 9]


def test_libm_is_there() -> None:
    linked = link(compile_text(LIBM), ["cube"])
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(linked.addresses["cube"])(2.0) == 8.0


def test_imports_come_before_the_process() -> None:
    callback = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 41)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    linked = link(compile_text(CALLER), ["eight"], {"seven": address})
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(linked.addresses["eight"])() == 42


@pytest.mark.parametrize("damage", [lambda code: code[:-3], lambda code: code + b"\x01", lambda code: code[:12]])
def test_a_damaged_bundle_is_an_artifact_error(damage) -> None:  # type: ignore[no-untyped-def]
    bundle = bundle_objects([compile_text(CALLER), compile_text(CALLEE)])
    with pytest.raises(ArtifactError, match=r"damaged|does not begin like an ELF"):
        link(damage(bundle), ["eight"])


def test_a_missing_symbol_is_an_error_and_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArtifactError, match="does not link in this process: nothing defines 'seven'"):
        link(compile_text(CALLER), ["eight"])
    assert link(compile_text(CALLEE), ["seven"]).find("absent") is None
    assert capfd.readouterr() == ("", "")
