"""Programs that do not hang together, one for each rule."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.relay.helpers import small_cnn
from tests.relay.programs import Programs, list_type
from tilewright import relay
from tilewright.errors import IllFormedError
from tilewright.relay.ir.prelude import prelude_module
from tilewright.relay.ir.well_formed import check_well_formed, well_formed

INT = relay.scalar_type("int32")


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_programs_are_well_formed(random: Random) -> None:
    check_well_formed(Programs(random).module())


def test_networks_and_the_prelude_are_well_formed() -> None:
    check_well_formed(small_cnn())
    check_well_formed(prelude_module())
    assert well_formed(relay.exp(relay.var("x", shape=(2,))))


def recursive() -> relay.Expr:
    f, n = relay.var("f"), relay.var("n", INT)
    return relay.Let(f, relay.Function([n], relay.Call(f, [n])), relay.Call(f, [relay.const(1)]))


def test_a_let_bound_function_may_name_itself_and_any_other_value_not() -> None:
    assert well_formed(recursive())
    x = relay.var("x", INT)
    assert not well_formed(relay.Function([], relay.Let(x, relay.add(x, relay.const(1)), x)))


def ill_formed() -> list[tuple[str, relay.Function]]:
    x, y, a = relay.var("x", INT), relay.var("y", INT), relay.TypeVar("A")
    data = list_type()
    inner = relay.Function([y], y)
    pattern = relay.PatternTuple([relay.PatternVar(y), relay.PatternVar(y)])
    lost = relay.Constructor("Lost", [], relay.GlobalTypeVar("Nowhere"))
    return [
        (r"%y is used and nothing binds it", relay.Function([x], relay.add(x, y))),
        (r"%y is used outside of where it is bound", relay.Function([x], relay.Tuple([inner, relay.add(x, y)]))),
        (r"%x is bound twice", relay.Function([x], relay.Let(x, relay.const(1), x))),
        (r"%x is bound twice", relay.Function([x, x], x)),
        (r"%y is bound twice", relay.Function([], relay.Match(relay.Tuple([]), [relay.Clause(pattern, y)]))),
        (r"@gone is not a function of the module", relay.Function([x], relay.Call(relay.GlobalVar("gone"), [x]))),
        (r"Lost is not a constructor of a data type", relay.Function([], relay.Call(lost, []))),
        (r"the type variable A is not a parameter", relay.Function([relay.var("z", a)], relay.const(1))),
        (
            r"passes List 2 arguments; it takes 1",
            relay.Function([relay.var("z", data.header(INT, INT))], relay.const(1)),
        ),
        (r"names Nowhere, which the module does not define", relay.Function([relay.var("z", lost.belong_to())], inner)),
    ]


@pytest.mark.parametrize("message, func", ill_formed(), ids=[str(i) for i in range(10)])
def test_errors_name_and_show_the_position(message: str, func: relay.Function) -> None:
    data = list_type()
    with pytest.raises(IllFormedError, match=message) as error:
        check_well_formed(relay.IRModule.from_expr(func, None, {data.header: data}))
    assert "in @main:" in str(error.value) and "^" in str(error.value)


def test_fields_of_constructors_are_checked() -> None:
    data = list_type()
    header = relay.GlobalTypeVar("Box")
    box = relay.TypeData(header, [], [relay.Constructor("Box", [data.header()], header)])
    with pytest.raises(IllFormedError, match="the constructor Box passes List 0 arguments; it takes 1"):
        check_well_formed(relay.IRModule({}, {header: box, data.header: data}))


def test_depth_is_no_limit() -> None:
    x = node = relay.var("x", INT)
    for i in range(3000):
        bound = relay.var(f"v{i}")
        node = relay.Let(bound, relay.add(x, x), node)  # type: ignore[assignment]
    assert well_formed(relay.Function([x], node))
