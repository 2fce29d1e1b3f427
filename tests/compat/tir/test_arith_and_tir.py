"""Classic programs about index arithmetic and loop IR."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def test_constant_bounds_are_derived_and_updated() -> None:
    import tvm
    from tvm import te

    analyzer = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    analyzer.update(x, tvm.arith.ConstIntBound(0, 9))
    bound = analyzer.const_int_bound(x * 2 - tvm.tir.floordiv(x, 4))
    assert (bound.min_value, bound.max_value) == (-2, 18)
    free = analyzer.const_int_bound(y)
    assert free.min_value == free.NEG_INF and free.max_value == tvm.arith.ConstIntBound.POS_INF
    analyzer.update(x, tvm.arith.ConstIntBound(3, tvm.arith.ConstIntBound.POS_INF), override=True)
    assert analyzer.const_int_bound(x + 1) == tvm.arith.ConstIntBound(4, tvm.arith.ConstIntBound.POS_INF)
    with analyzer.constraint_scope(x < 8):
        assert analyzer.const_int_bound(x).max_value == 7
        assert analyzer.can_prove(x < 10)
    assert not analyzer.can_prove(x < 10)
    with pytest.raises(InputError, match="takes a ConstIntBound or a ModularSet, not a int"):
        analyzer.update(x, 3)


def test_modular_sets_and_simplification() -> None:
    import tvm
    from tvm import te

    analyzer = tvm.arith.Analyzer()
    x = te.var("x")
    analyzer.update(x, tvm.arith.ModularSet(4, 3))
    found = analyzer.modular_set(x * 4 + 1)
    assert (found.coeff, found.base) == (16, 13)
    analyzer.bind(x, tvm.ir.Range(0, 8))
    for simplify in (analyzer.simplify, analyzer.rewrite_simplify, analyzer.canonical_simplify):
        tvm.testing.assert_prim_expr_equal(simplify(tvm.tir.floordiv(x * 4, 2)), x * 2)
        assert simplify(te.min(x, 10)) is x
    assert tvm.ir.Range.from_min_extent(2, 3) == tvm.ir.Range(2, 5)


def test_interval_sets_are_joined_and_met() -> None:
    import tvm
    from tvm import te

    x, y = te.var("x"), te.var("y")
    analyzer = tvm.arith.Analyzer()
    found = analyzer.int_set(x * 2 + y, {x: tvm.arith.IntervalSet(0, 4)})
    tvm.testing.assert_prim_expr_equal(found.min_value, y)
    tvm.testing.assert_prim_expr_equal(found.max_value, y + 8)
    vector = tvm.arith.IntSet.vector(tvm.tir.Ramp(tvm.tir.const(1), tvm.tir.const(2), 4))
    assert (vector.min_value.value, vector.max_value.value) == (1, 7)
    assert tvm.arith.IntSet.single_point(3).min_value.value == 3
    assert tvm.arith.IntervalSet(None, None).is_everything() and tvm.arith.IntervalSet(1, 0).is_nothing()


def test_linear_forms_and_deduced_bounds() -> None:
    import tvm
    from tvm import te

    a, b = te.var("a"), te.var("b")
    scale, other, base = tvm.arith.detect_linear_equation(a * 4 + b * 6 + 7, [a, b])
    assert (scale.value, other.value, base.value) == (4, 6, 7)
    assert tvm.arith.detect_linear_equation(a * a, [a]) == []
    low, high = tvm.arith.detect_clip_bound(tvm.tir.all(a * 1 < b * 6, a - 1 > 0), [a])
    assert low.value == 2
    tvm.testing.assert_prim_expr_equal(high, b * 6 - 1)
    j = te.var("j")
    found = tvm.arith.deduce_bound(a, a * 4 + j < 100, {}, {j: tvm.arith.IntervalSet(0, 3)})
    assert found.max_value.value == 24 and found.min_value is None
    assert tvm.arith.deduce_bound(a, a * a < 4, {}, {}).is_nothing()


def _loops():
    """Twice the elements of a buffer, written to another."""
    import tvm

    source = tvm.tir.decl_buffer((16,), "float32", name="source")
    target = tvm.tir.decl_buffer((16,), "float32", name="target")
    ib = tvm.tir.ir_builder.create()
    reads, writes = ib.buffer_ptr(source), ib.buffer_ptr(target)
    with ib.for_range(0, 16, name="i") as i, ib.if_scope(i < 32):
        writes[i] = reads[i] * 2.0
    return tvm.tir.PrimFunc([source, target], ib.get())


def test_passes_over_modules_of_loop_functions() -> None:
    import tvm

    func = _loops()
    mod = tvm.IRModule({"main": func})
    assert "if" in str(mod) and "if" not in str(tvm.tir.transform.Simplify()(mod))
    assert mod["main"] is func and tvm.IRModule.from_expr(func)["main"] is func
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=1, name="look")
    def look(func, mod, ctx):  # type: ignore[no-untyped-def]
        seen.append(func.name)
        return func

    passes = [look, tvm.tir.transform.Simplify(), tvm.tir.transform.UnrollLoop(), tvm.tir.transform.RemoveNoOp()]
    done = tvm.transform.Sequential(passes)(mod)
    assert seen == ["main"] and "if" not in str(done)
    renamed = tvm.tir.transform.Apply(lambda f: f.with_body(f.body, extra=1))(mod)
    assert renamed["main"].attrs["extra"] == 1
    x, out = np.arange(16, dtype="float32"), tvm.nd.empty((16,))
    tvm.build(done, target="llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), 2 * x)
    with pytest.raises(InputError, match=r"tir\.Simplify is a pass over modules: wrap the PrimFunc in an IRModule"):
        tvm.tir.transform.Simplify()(func)


def test_walking_and_rewriting() -> None:
    import tvm

    func = _loops()
    loads = []
    tvm.tir.stmt_functor.post_order_visit(
        func.body, lambda node: loads.append(node) if isinstance(node, tvm.tir.BufferLoad) else None
    )
    assert len(loads) == 1

    def unconditional(node):  # type: ignore[no-untyped-def]
        return node.then_case

    body = tvm.tir.stmt_functor.ir_transform(func.body, None, unconditional, ["tir.IfThenElse"])
    kinds = []
    tvm.tir.stmt_functor.post_order_visit(body, lambda node: kinds.append(type(node).__name__))
    assert "IfThenElse" not in kinds and "For" in kinds
    stopped = tvm.tir.stmt_functor.ir_transform(
        func.body, lambda node: tvm.tir.Evaluate(tvm.tir.const(0)), None, ["tir.IfThenElse"]
    )
    assert isinstance(stopped.body, tvm.tir.Evaluate)
    x = tvm.te.var("x")
    tvm.testing.assert_prim_expr_equal(tvm.tir.stmt_functor.substitute(x * 2 + 1, {x: 4}), 9)


def test_nodes_of_plain_numbers() -> None:
    import tvm
    from tvm import te, tir

    x = te.var("x")
    for name in ("Add", "Sub", "Mul", "Max", "FloorMod", "LE", "EQ"):
        node = getattr(tir, name)(x, 3)
        assert isinstance(node, getattr(tir, name)) and node.a is x and node.b.value == 3
        assert not isinstance(x, getattr(tir, name))
    ramp = tir.Ramp(0, 2, 4)
    assert (ramp.dtype, ramp.lanes) == ("int32x4", 4) and tir.Broadcast(1, 4).dtype == "int32x4"
    assert tir.Select(x > 1, 1.0, 2.0).dtype == "float32"
    out = tir.decl_buffer((8,), "int32", name="out")
    i = te.var("i")
    store = tir.BufferStore(out, i * x, [i])
    body = tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.IfThenElse(tir.GT(i, 2), store, tir.BufferStore(out, -1, [i])))
    marked = tir.SeqStmt([tir.Evaluate(0), tir.AttrStmt(x, "a_hint", 1, body)])
    handle = te.var("handle", "handle")
    func = tir.PrimFunc([handle, x], marked, buffer_map={handle: out}).with_attr("global_symbol", "fill")
    assert isinstance(func, tir.PrimFunc) and func.name == "fill" and func.with_attr("k", 1).attrs["k"] == 1
    result = tvm.nd.empty((8,), "int32")
    tvm.build(func, target="llvm")(result, 5)
    assert result.numpy().tolist() == [-1, -1, -1, 15, 20, 25, 30, 35]
    with pytest.raises(InputError, match="the parameter handle is an address: say by buffer_map"):
        tir.PrimFunc([handle], body)


def test_functions_that_are_not_there_say_so() -> None:
    import tvm

    with pytest.raises(UnsupportedError, match=r"call_llvm_intrin\('llvm.donothing'\): write it by tir's own"):
        tvm.tir.call_llvm_intrin("float32", "llvm.donothing")
    with pytest.raises(UnsupportedError, match="decl_buffer b: data= and auto_broadcast"):
        tvm.tir.decl_buffer((4,), name="b", buffer_type="auto_broadcast")
    with pytest.raises(AttributeError, match=r"memory is an Allocate of a Buffer from the start"):
        _ = tvm.tir.ProducerRealize


def test_calls_take_plain_numbers_and_names_with_their_namespace() -> None:
    import tvm
    from tvm import tir

    A = tir.decl_buffer((4,), "float32", name="A")
    call = tir.Call("int32", "tir.prefetch", [tir.call_intrin("handle", "tir.address_of", A.vload(0)), 0, 3, 1])
    assert str(call) == "prefetch(address_of(A[0]), 0, 3, 1)" and isinstance(call, tir.Call)
    tvm.build(
        tvm.IRModule.from_expr(tir.PrimFunc([A], tir.Evaluate(call)).with_attr("global_symbol", "f")), None, "llvm"
    )


def test_a_predicate_that_always_holds_is_none() -> None:
    from tvm import tir

    pointer = tir.Var("p", "handle")
    always, sometimes = tir.const(True, "bool"), tir.Var("there", "bool")
    index = tir.Ramp(0, 1, 8)
    assert str(tir.Load("float32x8", pointer, index, tir.Broadcast(always, 8))) == "p[ramp(0, 1, 8)]"
    with pytest.raises(UnsupportedError, match=r"tir\.Load: predicate"):
        tir.Load("float32x8", pointer, index, tir.Broadcast(sometimes, 8))
