"""share_functions: functions equal but for whole numbers become one, and others stay as they are."""

from __future__ import annotations

import pytest

from tilewright.codegen.source.share_functions import share_functions

CONTEXT = "const tilewright_context* ctx"


def function(name: str, count: int, line: str = "") -> str:
    """A function of vectors with a number."""
    inside = f"    tilewright_floatx16 x1 = (1.5f - y[{count}]);\n"
    body = f"  for (int32_t i = 0; i < {count}; i += 1) {{\n{inside}  }}\n{line}"
    return f"TILEWRIGHT_KERNEL int32_t {name}(float* restrict y, {CONTEXT}) {{\n{body}  return 0;\n}}"


def test_what_differs_becomes_an_argument() -> None:
    one, two = share_functions([f"{function('a', 3)}\n\nint after;", function("b", 4)])
    shared = function("a_shared", 3).replace(f"y, {CONTEXT}", f"y, int32_t n0, {CONTEXT}")
    shared = shared.replace("i < 3", "i < n0").replace("y[3]", "y[n0]")
    head = f"(float* restrict y, {CONTEXT}) {{\n  return a_shared(y, "
    calls = {name: f"TILEWRIGHT_MAYBE int32_t {name}{head}{number}, ctx);\n}}" for name, number in (("a", 3), ("b", 4))}
    assert one == f"{shared}\n\n{calls['a']}\n\nint after;"
    assert two == calls["b"]


@pytest.mark.parametrize(
    "texts",
    [
        [function("a", 3), function("b", 3, "  int32_t more;\n")],
        [
            function("a", 3, "  float held[3] TILEWRIGHT_ALIGNED;\n"),
            function("b", 4, "  float held[4] TILEWRIGHT_ALIGNED;\n"),
        ],
        [function("a", 3, "  y[0] = 1e-5f;\n"), function("b", 4, "  y[0] = 1e-7f;\n")],
        [
            function(name, 3, "".join(f"  y[{at + 30 * i}] = 0;\n" for i in range(9)))
            for name, at in (("a", 0), ("b", 9))
        ],
        [function("a", 3), function("b", 1 << 31)],
        [function(name, count).replace("tilewright_floatx16", "float") for name, count in (("a", 3), ("b", 4))],
    ],
    ids=["statements", "arrays", "floats", "many numbers", "large numbers", "no vectors"],
)
def test_others_stay(texts: list[str]) -> None:
    assert share_functions(texts) == texts
