"""Type inference of what has no annotation: closures, recursion, data types, references, dimensions of run time."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay, te
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type import FuncType, RefType, TensorType, TupleType, Type, TypeVar
from tilewright.relay.ir.type_of import type_of

SCALAR = TensorType(())
INT = TensorType((), "int32")


def vector(size: object, dtype: str = "float32") -> TensorType:
    return TensorType((size,), dtype)


def list_type() -> tuple[relay.TypeData, relay.Constructor, relay.Constructor]:
    a, header = TypeVar("A"), relay.GlobalTypeVar("List")
    cons = relay.Constructor("Cons", [a, header(a)], header, 0)
    nil = relay.Constructor("Nil", [], header, 1)
    return relay.TypeData(header, [a], [cons, nil]), cons, nil


def identity() -> relay.Function:
    a = TypeVar("A")
    x = relay.var("x", a)
    return relay.Function([x], x, a, [a])


def test_type_parameters_are_instantiated_per_call() -> None:
    name = relay.GlobalVar("id")
    x = relay.var("x", shape=(2,))
    body = relay.Tuple([relay.Call(name, [x]), relay.Call(name, [relay.const(1)])])
    mod = infer_type(relay.IRModule.from_expr(body, {name: identity()}))
    assert mod["main"].func_type.ret_type == TupleType([vector(2), INT])


def test_a_polymorphic_function_is_passed_where_a_plain_one_is_wanted() -> None:
    f = relay.var("f", FuncType([SCALAR], SCALAR))
    apply = relay.Function([f], relay.Call(f, [relay.const(1.0)]))
    assert type_of(relay.Call(apply, [identity()])) == SCALAR


def test_a_closure_gets_its_parameter_types_from_its_use() -> None:
    x, y, f = relay.var("x", shape=(2,)), relay.var("y"), relay.var("f")
    body = relay.Let(f, relay.Function([y], relay.add(relay.add(y, y), x)), relay.Call(f, [x]))
    assert type_of(body) == vector(2)
    assert y.checked_type == vector(2) and f.checked_type == FuncType([vector(2)], vector(2))


def test_a_closure_that_is_never_called_needs_an_annotation() -> None:
    y, f = relay.var("y"), relay.var("f")
    with pytest.raises(TypeMismatchError, match="variable 'y' has no type"):
        type_of(relay.Let(f, relay.Function([y], relay.exp(y)), relay.const(1)))


def test_recursion_of_a_global_function_without_a_result_type() -> None:
    n, name = relay.var("n", INT), relay.GlobalVar("count")
    again = relay.Call(name, [relay.subtract(n, relay.const(1))])
    func = relay.Function([n], relay.If(relay.equal(n, relay.const(0)), n, again))
    mod = infer_type(relay.IRModule.from_expr(relay.Call(name, [relay.const(3)]), {name: func}))
    assert mod["count"].func_type == FuncType([INT], INT)


def test_mutually_recursive_functions_are_typed() -> None:
    even, odd = relay.GlobalVar("even"), relay.GlobalVar("odd")

    def function(other: relay.GlobalVar, at_zero: bool) -> relay.Function:
        n = relay.var("n", INT)
        less = relay.Call(other, [relay.subtract(n, relay.const(1))])
        return relay.Function([n], relay.If(relay.equal(n, relay.const(0)), relay.const(at_zero), less))

    mod = relay.IRModule({even: function(odd, True), odd: function(even, False)})
    assert infer_type(mod)["odd"].func_type == FuncType([INT], TensorType((), "bool"))


def test_recursion_of_a_let_bound_closure() -> None:
    n, loop = relay.var("n"), relay.var("loop")
    again = relay.Call(loop, [relay.subtract(n, relay.const(1))])
    func = relay.Function([n], relay.If(relay.equal(n, relay.const(0)), relay.const(2.0), again))
    assert type_of(relay.Let(loop, func, relay.Call(loop, [relay.const(3)]))) == SCALAR


def test_data_types_and_match() -> None:
    data, cons, nil = list_type()
    h, t = relay.var("h"), relay.var("t")
    xs = relay.Call(cons, [relay.const(1.0), relay.Call(nil, [])])
    body = relay.Match(
        xs,
        [
            relay.Clause(relay.PatternConstructor(cons, [relay.PatternVar(h), relay.PatternVar(t)]), h),
            relay.Clause(relay.PatternConstructor(nil), relay.const(0.0)),
        ],
    )
    mod = infer_type(relay.IRModule.from_expr(body, None, {data.header: data}))
    assert mod["main"].func_type.ret_type == SCALAR
    assert t.checked_type == data.header(SCALAR)


def test_the_elements_of_an_empty_list_follow_from_a_later_use() -> None:
    data, cons, nil = list_type()
    xs, r = relay.var("xs"), relay.var("r")
    body = relay.Let(xs, relay.Call(nil, []), relay.Let(r, relay.Call(cons, [relay.const(1), xs]), xs))
    assert type_of(body) == data.header(INT)
    assert type_of(relay.Call(nil, [])) == data.header(TupleType([]))


def test_references_are_typed_by_their_value() -> None:
    r, u = relay.var("r"), relay.var("u")
    body = relay.Let(
        r,
        relay.RefCreate(relay.const(1)),
        relay.Let(u, relay.RefWrite(r, relay.const(2)), relay.Tuple([relay.RefRead(r), u])),
    )
    assert type_of(body) == TupleType([INT, TupleType([])])
    assert r.checked_type == RefType(INT)
    with pytest.raises(TypeMismatchError, match="ref_write needs a reference"):
        type_of(relay.RefWrite(relay.RefCreate(relay.const(1)), relay.const(2.0)))
    with pytest.raises(TypeMismatchError, match="ref_read needs a reference"):
        type_of(relay.RefRead(relay.const(1)))


def test_a_wider_value_does_not_go_into_a_reference() -> None:
    r, x = relay.var("r", RefType(vector(3))), relay.var("x", vector(relay.Any()))
    with pytest.raises(TypeMismatchError, match=r"create the reference with \? dimensions"):
        type_of(relay.RefWrite(r, x))


def test_dimensions_known_at_run_time_meet_any_other() -> None:
    n = te.size_var("n")
    cond = relay.var("c", TensorType((), "bool"))

    def meet(a: object, b: object) -> Type:
        return type_of(relay.If(cond, relay.var("x", vector(a)), relay.var("y", vector(b))))

    assert meet(n, n) == vector(n)
    assert meet(n, 3) == meet(relay.Any(), 3) == meet(n, relay.Any()) == vector(relay.Any())
    with pytest.raises(TypeMismatchError, match="branches of an If have different types"):
        meet(3, 4)


def test_declared_types_hold_where_dimensions_are_not_known() -> None:
    f, x = relay.var("f"), relay.var("x", vector(relay.Any()))
    p = relay.var("p", vector(3))
    assert type_of(relay.Let(f, relay.Function([p], p), relay.Call(f, [x]))) == vector(3)
    narrowed = relay.var("v", vector(3))
    assert type_of(relay.Let(narrowed, x, narrowed)) == vector(3)


def test_the_size_variables_of_a_global_function_are_its_own() -> None:
    n, name = te.size_var("n"), relay.GlobalVar("twice")
    p = relay.var("p", vector(n))
    twice = relay.Function([p], relay.Tuple([p, p]), TupleType([vector(n), vector(n * 2)]))
    object.__setattr__(twice, "body", relay.Tuple([p, relay.var("q", vector(n * 2))]))
    m = te.size_var("m")
    for size, double in ((3, 6), (m, m * 2), (relay.Any(), relay.Any())):
        call = relay.Call(name, [relay.var("x", vector(size))])
        mod = infer_type(relay.IRModule.from_expr(call, {name: twice}))
        assert mod["main"].func_type.ret_type == TupleType([vector(size), vector(double)])


def test_a_dimension_that_grows_in_a_recursion_is_declared() -> None:
    x, name = relay.var("x", vector(relay.Any())), relay.GlobalVar("grow")
    longer = relay.var("y", vector(relay.Any()))
    func = relay.Function([x, longer], relay.Call(name, [longer, x]), vector(relay.Any()))
    call = relay.Call(name, [relay.const(np.zeros(3, "float32")), relay.const(np.zeros(4, "float32"))])
    assert infer_type(relay.IRModule.from_expr(call, {name: func}))["main"].func_type.ret_type == vector(relay.Any())


def test_what_follows_from_a_dimension_that_was_widened_is_widened() -> None:
    _data, _cons, _nil = list_type()
    x, wide = relay.const(np.zeros(3, "float32")), relay.var("w", vector(relay.Any()))
    f, a = relay.var("f"), relay.var("a")
    calls = relay.Tuple([relay.Call(f, [x]), relay.Call(f, [wide])])
    assert type_of(relay.Let(f, relay.Function([a], relay.exp(a)), calls)) == TupleType([vector(relay.Any())] * 2)


def errors() -> list[tuple[str, relay.Expr]]:
    _data, cons, nil = list_type()
    x, f, y = relay.var("x", shape=(2,)), relay.var("f"), relay.var("y")
    one = relay.Call(cons, [relay.const(1), relay.Call(nil, [])])
    self_call = relay.Function([y], relay.Call(y, [y]))
    empty = relay.Match(one, [])
    fields = relay.Match(one, [relay.Clause(relay.PatternConstructor(cons, [relay.PatternVar(y)]), relay.const(1))])
    tuple_pattern = relay.Match(one, [relay.Clause(relay.PatternTuple([relay.PatternVar(y)]), relay.const(1))])
    clauses = relay.Match(
        one,
        [
            relay.Clause(relay.PatternConstructor(nil), relay.const(1)),
            relay.Clause(relay.PatternWildcard(), relay.const(1.0)),
        ],
    )
    foreign = relay.Constructor("Lost", [], relay.GlobalTypeVar("Nowhere"))
    return [
        ("a value of type .* is called, which is no function", relay.Call(x, [x])),
        ("the function takes", relay.Call(identity(), [x, x])),
        ("List.*int32.* is not|float32 is not int32|int32 is not float32", relay.Call(cons, [relay.const(1.0), one])),
        ("would contain itself", relay.Let(f, self_call, f)),
        ("at least one clause", empty),
        ("the pattern Cons has 1 fields; it needs 2", fields),
        ("a tuple pattern does not fit", tuple_pattern),
        ("clauses of a match have different types", clauses),
        ("Lost belongs to no TypeData", relay.Call(foreign, [])),
        ("field 2 is taken", relay.TupleGetItem(relay.Tuple([x]), 2)),
        ("condition of an If must be a scalar bool", relay.If(x, x, x)),
        ("@nobody is called but is not a function", relay.Call(relay.GlobalVar("nobody"), [x])),
        ("%v: it is declared as int32", relay.Let(relay.var("v", INT), x, x)),
    ]


@pytest.mark.parametrize("message, expr", errors())
def test_ill_typed_expressions_are_refused(message: str, expr: relay.Expr) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        type_of(expr)


def test_a_match_that_leaves_out_a_value_is_named_with_that_value() -> None:
    data, cons, nil = list_type()
    inner = relay.PatternConstructor(cons, [relay.PatternWildcard(), relay.PatternConstructor(nil)])
    xs = relay.var("xs", data.header(INT))

    def module(*patterns: relay.Pattern, complete: bool = True) -> relay.IRModule:
        body = relay.Match(xs, [relay.Clause(p, relay.const(1)) for p in patterns], complete)
        return relay.IRModule.from_expr(body, None, {data.header: data})

    with pytest.raises(TypeMismatchError, match=r"no clause for Cons\(_, Cons\(_, _\)\)"):
        infer_type(module(inner, relay.PatternConstructor(nil)))
    with pytest.raises(TypeMismatchError, match=r"no clause for Nil"):
        infer_type(module(relay.PatternConstructor(cons, [relay.PatternWildcard()] * 2)))
    infer_type(module(inner, complete=False))
    infer_type(module(inner, relay.PatternWildcard()))


def test_a_recursive_function_that_was_replaced_is_typed_anew() -> None:
    name = relay.GlobalVar("f")

    def module(dtype: str) -> relay.IRModule:
        n = relay.var("n", TensorType((), dtype))
        stop = relay.less(n, relay.const(1, dtype))
        again = relay.Call(name, [relay.subtract(n, relay.const(1, dtype))])
        return relay.IRModule({name: relay.Function([n], relay.If(stop, n, again))})

    for dtype in ("int32", "int64"):
        assert infer_type(module(dtype))["f"].func_type.ret_type == TensorType((), dtype)
