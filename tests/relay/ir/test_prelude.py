"""The prelude: every function against Python's own lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.ir.prelude import Prelude, prelude_module
from tilewright.relay.ir.values import ConstructorValue, elements

XS = [3, -1, 4, 1, -5]


def run(expression: str) -> Any:
    """The value of `expression`, in which %xs is XS; lists as Python lists."""
    prelude = Prelude()
    mod = relay.parse(f"def @main(%xs: List[int32]) {{ {expression} }}", prelude.mod)
    return plain(relay.evaluate(mod, [prelude.list_value([np.int32(x) for x in XS])]))


def plain(value: Any) -> Any:
    if isinstance(value, ConstructorValue) and value.name in ("Cons", "Nil"):
        return [plain(item) for item in elements(value)]
    if isinstance(value, ConstructorValue):
        return (value.name, *map(plain, value.fields))
    return tuple(map(plain, value)) if isinstance(value, tuple) else value.item()


UNFOLD = "fn (%n: int32) -> Option[(int32, int32)] { if (%n < 3) { Some((%n + 1, %n * %n)) } else { None } }"
RUNNING = "fn (%a: int32, %x: int32) { (%a + %x, %a * %x) }"


CASES = [
    ("@id(7)", 7),
    ("@compose(fn (%x) { %x + 1 }, fn (%x) { %x * 2 })(5)", 11),
    ("@iterate(fn (%x) { %x * 2 }, 5)(1)", 32),
    ("@hd(%xs)", 3),
    ("@tl(%xs)", XS[1:]),
    ("@nth(%xs, 2)", 4),
    ("@update(%xs, 1, 9)", [3, 9, 4, 1, -5]),
    ("@map(fn (%x) { cast(%x, dtype=\"float32\") / 2f }, %xs)", [x / 2 for x in XS]),
    ("@foldl(fn (%a, %x) { %a * 2 + %x }, 1, %xs)", ((((2 + 3) * 2 - 1) * 2 + 4) * 2 + 1) * 2 - 5),
    ("@foldr(fn (%x, %a) { %x - %a }, 10, %xs)", 3 - (-1 - (4 - (1 - (-5 - 10))))),
    ("@foldr1(fn (%x, %a) { %x - %a }, %xs)", 3 - (-1 - (4 - (1 - -5)))),
    ("@concat(%xs, @map(fn (%x) { -1 * %x }, %xs))", XS + [-x for x in XS]),
    ("@filter(fn (%x) { %x > 0 }, %xs)", [3, 4, 1]),
    ("@zip(%xs, @tl(%xs))", list(itertools.pairwise(XS))),
    ("@rev(%xs)", XS[::-1]),
    (f"@map_accuml({RUNNING}, 1, %xs)", (3, [3, -4, 12, 7, -40])),
    (f"@map_accumr({RUNNING}, 1, %xs)", (3, [0, -1, -12, -4, -5])),
    (f"@unfoldl({UNFOLD}, 0)", [4, 1, 0]),
    (f"@unfoldr({UNFOLD}, 0)", [0, 1, 4]),
    ("@length(%xs)", 5),
    ("@sum(%xs)", 2),
    ("(@all(fn (%x) { %x > -9 }, %xs), @all(fn (%x) { %x > 0 }, %xs))", (True, False)),
    ("(@any(fn (%x) { %x > 3 }, %xs), @any(fn (%x) { %x > 4 }, %xs))", (True, False)),
    ("@tmap(fn (%x) { %x + 1 }, Rose(1, Cons(Rose(2, Nil), Nil)))", ("Rose", 2, [("Rose", 3, [])])),
    ("@size(Rose(1, Cons(Rose(2, Cons(Rose(3, Nil), Nil)), Cons(Rose(4, Nil), Nil))))", 4),
]  # fmt: skip


@pytest.mark.parametrize("expression, expected", CASES)
def test_functions_of_the_prelude_agree_with_python(expression: str, expected: Any) -> None:
    assert run(expression) == expected


def test_every_function_is_tested() -> None:
    tested = {call.split("(")[0] for expression, _ in CASES for call in expression.split("@")}
    assert {gvar.name for gvar in prelude_module()} <= tested


@pytest.mark.parametrize("expression", ["@hd({})", "@tl({})", "@nth({}, 1)", "@foldr1(fn (%x, %a) {{ %x + %a }}, {})"])
def test_what_an_empty_list_has_not(expression: str) -> None:
    with pytest.raises(InputError, match="no clause of a match fits the value Nil"):
        run(expression.format("@filter(fn (%x) { False }, %xs)"))


def test_on_top_of_a_module_and_from_python() -> None:
    x = relay.var("x", relay.scalar_type("int32"))
    own = relay.IRModule({relay.GlobalVar("twice"): relay.Function([x], relay.add(x, x))})
    prelude = Prelude(own)
    xs = prelude.list_of([relay.const(1), relay.const(2)])
    mapped = relay.Call(prelude.map, [prelude.mod.global_var("twice"), xs])
    mod = relay.IRModule.from_expr(relay.Call(prelude.sum, [mapped])).merge(prelude.mod)
    assert relay.evaluate(mod) == 6
    assert str(prelude.type("List")) == "List" and prelude.Some.tag == 0
    with pytest.raises(AttributeError, match="the prelude has no 'nothing'"):
        _ = prelude.nothing


def test_tensor_arrays_have_functions_by_rank() -> None:
    prelude = Prelude()
    array = prelude.tensor_array("float32", 1)
    x = relay.var("x", shape=(3,))
    slots: relay.Expr = relay.Call(array["create"], [relay.const(3)])
    for i in (2, 0, 1):
        slots = relay.Call(array["write"], [slots, relay.const(i), relay.multiply(x, float(i))])
    read = relay.Call(array["read"], [slots, relay.const(2)])
    body = relay.Tuple([read, relay.Call(array["stack"], [slots]), relay.Call(array["size"], [slots])])
    mod = relay.IRModule.from_expr(body).merge(prelude.mod)
    value = np.arange(3, dtype="float32")
    last, stacked, size = relay.evaluate(mod, [value])
    np.testing.assert_array_equal(last, value * 2)
    np.testing.assert_array_equal(stacked, np.stack([value * 0, value, value * 2]))
    assert size == 3 and prelude.tensor_array("float32", 1) == array
    with pytest.raises(InputError, match="-1 dimensions"):
        prelude.tensor_array("float32", -1)
