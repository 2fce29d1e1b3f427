"""The debug executor: every intermediate by name, compared with the reference, and a planted fault found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tilewright as tw
from tilewright.driver.debug import debug_run, error_of, first_wrong, source_values
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Function, GlobalVar, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def network() -> IRModule:
    x = var("x", shape=(3, 4))
    a = Call(get("exp"), [x], span="first")
    b = Call(get("tanh"), [a], span="second")
    return IRModule.from_expr(Function([x], Call(get("add"), [b, a], span="third")))


def build(mod: IRModule) -> tw.Executable:
    return tw.compile(mod, threads=1)


def test_every_intermediate_by_name() -> None:
    values = debug_run(network(), {"x": X}, build)
    assert [(v.source, v.operator) for v in values] == [("first", "exp"), ("second", "tanh"), ("third", "add")]
    assert all(v.error < 1e-6 for v in values) and first_wrong(values) is None
    np.testing.assert_allclose(source_values(values)["second"], np.tanh(np.exp(X)), rtol=1e-6)


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = get("tanh")
    wrong = dataclasses.replace(right, compute=get("erf").compute)
    mod = network()
    calls = {"tanh": wrong}

    def build_wrong(opened: IRModule) -> tw.Executable:
        main = opened["main"]
        from tilewright.relay.ir.visitor import rewrite

        def rule(node: object) -> Call | None:
            if isinstance(node, Call) and node.op is right:
                return Call(calls["tanh"], node.args, node.attrs, node.span)
            return None

        return build(opened.with_function("main", Function(main.params, rewrite(main.body, rule))))

    found = first_wrong(debug_run(mod, {"x": X}, build_wrong))
    assert found is not None and (found.source, found.operator) == ("second", "tanh") and found.error > 1e-3


def test_missing_inputs_and_calls_of_functions_are_refused() -> None:
    with pytest.raises(InputError, match="input 'x' is missing"):
        debug_run(network(), {}, build)
    x, y = var("x", shape=(2,)), var("y", shape=(2,))
    f = GlobalVar("f")
    mod = IRModule({f: Function([y], op.exp(y)), GlobalVar("main"): Function([x], Call(f, [x]))})
    with pytest.raises(UnsupportedError, match="straight graphs of operators"):
        debug_run(mod, {"x": np.zeros(2, np.float32)}, build)


def test_the_error_measure() -> None:
    assert error_of(np.array([1.0, np.nan]), np.array([1.5, np.nan])) == pytest.approx(1 / 3)
    assert error_of(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == float("inf")
    assert error_of(np.array([True]), np.array([False])) == 1.0
