"""Gradients through branches, closures, recursion, data types and references, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, TypeData
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, If, Let, RefCreate, RefRead, RefWrite, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import FuncType, GlobalTypeVar, TensorType, TypeCall, TypeVar
from tilewright.relay.transform.gradient.gradient import gradient

X = np.array([0.5, -1.0, 2.0], "float32")
VECTOR = TensorType((3,))
NUMBER = TensorType((), "int32")


def slope(func: Function, mod: IRModule | None, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Central differences of the sum of the result by the first input."""
    base = mod or IRModule()

    def total(x: np.ndarray) -> float:
        outs = relay.interpret(base.with_function("main", func), [x, *inputs[1:]])
        return float(sum(out.astype("float64").sum() for out in outs))

    steps = np.eye(X.size, dtype="float32") * np.float32(1e-2)
    return np.array([(total(inputs[0] + step) - total(inputs[0] - step)) / 2e-2 for step in steps])


def check(func: Function, *more: np.ndarray, mod: IRModule | None = None, compiled: bool = True) -> np.ndarray:
    """The gradient by the first parameter, equal to differences, interpreted and compiled."""
    inputs = [X, *more]
    derivative = gradient(func, mod, mode="higher_order", wrt=func.params[:1])
    whole = (mod or IRModule()).with_function("main", derivative)
    *_, found = relay.interpret(whole, inputs)
    np.testing.assert_allclose(found, slope(func, mod, inputs), rtol=2e-3, atol=2e-3)
    if compiled:
        np.testing.assert_allclose(tw.compile(whole, cache=False)(*inputs)[-1], found, rtol=1e-5, atol=1e-5)
    return found


def test_the_example_of_the_docstring_holds() -> None:
    x = Var("x", VECTOR)
    np.testing.assert_allclose(check(Function([x], x * x)), 2 * X)


@pytest.mark.parametrize("condition", [True, False])
def test_gradients_pass_through_either_branch(condition: bool) -> None:
    x, c = Var("x", VECTOR), Var("c", TensorType((), "bool"))
    y = relay.exp(x)
    check(Function([x, c], If(c, relay.sin(y), y * x) + y), np.array(condition))


def test_closures_capture_and_are_called_twice() -> None:
    x, y, z = Var("x", VECTOR), Var("y", VECTOR), Var("z", VECTOR)
    square, f = Function([y], y * y * x), Var("f")
    check(Function([x], Let(f, square, relay.Call(f, [relay.Call(f, [x])]))))
    g = Var("g", FuncType([VECTOR], VECTOR))
    twice = Function([g, z], relay.Call(g, [relay.Call(g, [z])]))
    check(Function([x], relay.Call(twice, [Function([y], relay.sin(y) * x), x])))


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_recursion_by_name(steps: int) -> None:
    """pow(x, n) = x * pow(x, n - 1), as a function of the module and as a let-bound one."""
    x, n = Var("x", VECTOR), Var("n", NUMBER)
    name = GlobalVar("power")
    one, zero = relay.const(1, "int32"), relay.const(0, "int32")

    def body(callee: Expr) -> Expr:
        return If(relay.equal(n, zero), relay.ones_like(x), x * relay.Call(callee, [x, n - one]))

    mod = IRModule({name: Function([x, n], body(name), VECTOR)})
    y, m = Var("y", VECTOR), Var("m", NUMBER)
    check(Function([y, m], relay.Call(name, [y, m])), np.array(steps, "int32"), mod=mod)
    local = Var("local", FuncType([VECTOR, NUMBER], VECTOR))
    bound = Let(local, Function([x, n], body(local), VECTOR), relay.Call(local, [y, m]))
    found = check(Function([y, m], bound), np.array(steps, "int32"))
    np.testing.assert_allclose(found, steps * X ** max(steps - 1, 0), rtol=1e-4)


def list_module() -> tuple[IRModule, Constructor, Constructor, GlobalTypeVar]:
    """A polymorphic list."""
    a, header = TypeVar("A"), GlobalTypeVar("Chain")
    nil = Constructor("Empty", [], header, 0)
    cons = Constructor("Link", [a, TypeCall(header, [a])], header, 1)
    return IRModule({}, {header: TypeData(header, [a], [nil, cons])}), nil, cons, header


def test_gradients_pass_through_data_types_and_recursion() -> None:
    """The product of a list's elements, by recursion and match."""
    mod, nil, cons, header = list_module()
    items, name = Var("items", TypeCall(header, [VECTOR])), GlobalVar("product")
    head, tail = Var("head"), Var("tail")
    clauses = [
        Clause(PatternConstructor(cons, [PatternVar(head), PatternVar(tail)]), head * relay.Call(name, [tail])),
        Clause(PatternConstructor(nil), relay.const(np.ones(3, "float32"))),
    ]
    functions = {name: Function([items], Match(items, clauses), VECTOR)}
    mod = IRModule(functions, mod.type_definitions)
    x = Var("x", VECTOR)
    built = relay.Call(nil, [])
    for element in (relay.sin(x), x, x * x):
        built = relay.Call(cons, [element, built])
    check(Function([x], relay.Call(name, [built])), mod=mod)


def test_gradients_pass_through_references() -> None:
    x, r, ignored = Var("x", VECTOR), Var("r"), Var("ignored")
    body = Let(r, RefCreate(x * x), Let(ignored, RefWrite(r, RefRead(r) * x), RefRead(r) + x))
    check(Function([x], body))


def test_tuples_in_and_out() -> None:
    pair = Var("pair", relay.TupleType([VECTOR, VECTOR]))
    func = gradient(Function([pair], relay.Tuple([pair[0] * pair[1], relay.split(pair[1], 3)[2]])), mode="higher_order")
    args = Var("a", VECTOR), Var("b", VECTOR)
    mod = IRModule.from_expr(Function(args, relay.Call(func, [relay.Tuple(args)])))
    *_, da, db = relay.interpret(mod, [X, 2 * X])
    np.testing.assert_allclose(da, 2 * X)
    np.testing.assert_allclose(db, X + np.array([0, 0, 1]))


def test_derivatives_of_derivatives() -> None:
    """x³ through a branch three times over: the gradient function is differentiated again."""
    x, c = Var("x", VECTOR), Var("c", TensorType((), "bool"))
    func = Function([x, c], If(c, x * x * x, x))
    for wanted in (3 * X**2, 6 * X, np.full(3, 6.0)):
        derivative = gradient(func, mode="higher_order", wrt=func.params[:1])
        c = derivative.params[1]
        found = relay.interpret(derivative, [X, np.array(True)])[-1]
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
        func = Function(derivative.params, relay.TupleGetItem(derivative.body, 1)[0])


def test_both_modes_agree_on_straight_lines() -> None:
    x = Var("x", VECTOR)
    parts = relay.split(relay.nn.softmax(x), 3)
    func = Function([x], relay.concatenate([parts[2], parts[0] * relay.const(2.0)]) * relay.const(X[:2]))
    first = relay.interpret(gradient(func, mode="first_order"), [X])
    second = relay.interpret(gradient(func, mode="higher_order"), [X])
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_auto_takes_what_it_needs() -> None:
    x, c = Var("x", VECTOR), Var("c", TensorType((), "bool"))
    assert not isinstance(gradient(Function([x], x * x)).body, Let)
    assert isinstance(gradient(Function([x, c], If(c, x, x * x))).body, Let)
    with pytest.raises(UnsupportedError, match="a If is no straight-line code; use gradient"):
        gradient(Function([x, c], If(c, x, x * x)), mode="first_order")


def test_a_result_that_is_no_tensor() -> None:
    x = Var("x", VECTOR)
    with pytest.raises(UnsupportedError, match=r"the result is ref.*only functions of tensors to tensors"):
        gradient(Function([x], RefCreate(x)))


def test_a_constructor_with_tensors_of_its_own() -> None:
    header = GlobalTypeVar("Box")
    box = Constructor("Box", [VECTOR], header, 0)
    mod = IRModule({}, {header: TypeData(header, [], [box])})
    x, y = Var("x", VECTOR), Var("y")
    body = Match(relay.Call(box, [x]), [Clause(PatternConstructor(box, [PatternVar(y)]), y)])
    with pytest.raises(UnsupportedError, match="the constructor Box has tensors of floating point as fields"):
        gradient(Function([x], body), mod)


def test_an_operator_without_gradient_in_a_branch() -> None:
    x, c = Var("x", TensorType((4, 4))), Var("c", TensorType((), "bool"))
    inside = relay.dyn.reshape(x, relay.const(np.array([4, 4])))
    with pytest.raises(UnsupportedError, match=r"dyn.reshape\(.*has no gradient"):
        gradient(Function([x, c], If(c, x, inside)))
