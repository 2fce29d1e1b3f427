"""`PassContext` while schedules are lowered: passes that a program adds, options, and what no pass reads."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def _program(n: int = 16) -> tuple[object, list[object]]:
    from tvm import te

    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="b")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], 8)[1])
    return s, [a, b]


def _run(module: object, n: int = 16) -> np.ndarray:
    import tvm

    x, out = tvm.nd.array(np.arange(n, dtype="float32")), tvm.nd.empty((n,))
    module(x, out)  # type: ignore[operator]
    return out.numpy()


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
def test_added_passes_change_the_code(phase: int) -> None:
    import tvm

    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def negate(func: object, mod: object, context: object) -> object:
        def change(node: object) -> object:
            seen.append(node)
            return tvm.tir.BufferStore(node.buffer, -node.value, node.indices)  # type: ignore[attr-defined]

        body = tvm.tir.stmt_functor.ir_transform(func.body, None, change, ["tir.BufferStore"])  # type: ignore[attr-defined]
        return func.with_body(body)  # type: ignore[attr-defined]

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(phase, negate)]}):
        changed = tvm.build(*_program(), target="llvm")
    np.testing.assert_array_equal(_run(changed), -2 * np.arange(16))
    assert seen
    np.testing.assert_array_equal(_run(tvm.build(*_program(), target="llvm")), 2 * np.arange(16))


def test_vectorization_can_be_switched_off() -> None:
    import tvm

    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        plain = tvm.lower(*_program())["main"]
    assert "vectorized" not in repr(plain) and "ramp" not in repr(plain)
    assert "ramp" in repr(tvm.lower(*_program())["main"])
    np.testing.assert_array_equal(_run(tvm.build(plain, target="llvm")), 2 * np.arange(16))


def test_accesses_are_checked() -> None:
    import tvm
    from tvm import te

    n = te.var("n")
    a = te.placeholder((4,), name="a")
    b = te.compute((n,), lambda i: a[i], name="b")
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        module = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    with pytest.raises(InputError, match="a"):
        module(tvm.nd.array(np.ones(4, "float32")), tvm.nd.empty((6,)))


def test_what_no_pass_reads_is_refused() -> None:
    import tvm
    from tvm import relay

    with pytest.raises(
        InputError,
        match=r"no pass reads the config option 'tir.disable_vectorise'; did you mean 'tir.disable_vectorize'",
    ):
        tvm.transform.PassContext(config={"tir.disable_vectorise": True})
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(0, 5)]}):
        with pytest.raises(InputError, match="5 is no pass"):
            tvm.lower(*_program())
        x = relay.var("x", shape=(2,))
        with pytest.raises(UnsupportedError, match=r"relay.build does not run the passes of tir.add_lower_pass"):
            relay.build(tvm.IRModule.from_expr(relay.tanh(x)), "llvm")


def test_parameters_of_one_name_are_two_inputs() -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    x, other = relay.var("x", shape=(3,)), relay.var("x", shape=(3,))
    func = relay.Function([x, other], relay.subtract(x, other))
    a, b = np.array([1, 2, 3], "float32"), np.array([5, 1, 0], "float32")
    for kind in ("debug", "graph", "vm"):
        result = relay.create_executor(kind, tvm.IRModule(), tvm.cpu(), "llvm").evaluate(func)(a, b)
        np.testing.assert_array_equal(result.numpy(), a - b)
    module = graph_executor.GraphModule(relay.build(tvm.IRModule.from_expr(func), "llvm")["default"](tvm.cpu()))
    module.set_input(0, a)
    module.set_input(1, b)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), a - b)


def test_expressions_are_not_iterated() -> None:
    from tvm import relay

    with pytest.raises(TypeError, match="not iterable"):
        list(relay.var("x", shape=(3,)))
    one, two = relay.split(relay.var("x", shape=(4,)), 2)
    assert one.index == 0 and two.index == 1


def test_grids_of_coordinates_are_a_tuple() -> None:
    from tvm import relay

    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    grids = relay.meshgrid([x, y], indexing="ij")
    first, second = grids
    assert len(grids) == 2 and grids.astuple().op.name == "meshgrid" and second.index == 1
    a, b = np.array([1, 2], "float32"), np.array([5, 6, 7], "float32")
    func = relay.Function([x, y], first * second)
    result = relay.create_executor("graph").evaluate(func)(a, b)
    np.testing.assert_array_equal(result.numpy(), np.outer(a, b))
    const = relay.add(x, relay.const(np.ones(2, "float32")))
    assert "metadata" in const.astext() and "metadata" not in const.astext(show_meta_data=False)
