"""Builders of Relay whose sizes are values at run time, and resizing with the classic choice of the nearest element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError

pytestmark = pytest.mark.usefixtures("classic")

RNG = np.random.default_rng(21)


def run(kind: str, outputs: Any, inputs: dict[Any, Any]) -> Any:
    """The value of `outputs` on values for its variables."""
    import tvm
    from tvm import relay

    mod = tvm.IRModule.from_expr(relay.Function(list(inputs), outputs))
    return relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm").evaluate()(*inputs.values()).numpy()


#: What is built of data (2, 3, 4) and a vector of sizes; the vector; what it computes.
CASES: dict[str, tuple[Callable[..., Any], list[int], Callable[..., Any]]] = {
    "reshape": (lambda r, x, s: r.reshape(x, s), [8, 3], lambda x: x.reshape(8, 3)),
    "broadcast_to": (lambda r, x, s: r.broadcast_to(x, s), [5, 2, 3, 4], lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    "tile": (lambda r, x, s: r.tile(x, s), [2, 1, 3], lambda x: np.tile(x, (2, 1, 3))),
    "zeros": (lambda r, x, s: r.zeros(s, "float32"), [2, 5], lambda x: np.zeros((2, 5))),
    "ones": (lambda r, x, s: r.ones(s, "float32"), [3], lambda x: np.ones(3)),
    "full": (lambda r, x, s: r.full(r.const(7.0), s, "float32"), [4, 2], lambda x: np.full((4, 2), 7.0)),
    "begin of a slice": (
        lambda r, x, s: r.strided_slice(x, s, [2, 3, 4], slice_mode="end"), [1, 0, 2], lambda x: x[1:, :, 2:],
    ),
    "sizes of a slice": (
        lambda r, x, s: r.strided_slice(x, [0, 1, 1], s, slice_mode="size"), [2, 2, -1], lambda x: x[:, 1:3, 1:],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["vm", "debug"])
def test_a_size_that_is_known_at_run_time(kind: str, name: str) -> None:
    from tvm import relay

    build, sizes, expected = CASES[name]
    x, s = relay.var("x", shape=(2, 3, 4)), relay.var("s", shape=(len(sizes),), dtype="int64")
    value = RNG.random((2, 3, 4), "float32")
    found = run(kind, build(relay, x, s), {x: value, s: np.array(sizes, "int64")})
    np.testing.assert_array_equal(found, expected(value))


@pytest.mark.parametrize("name", CASES)
def test_a_constant_size_is_the_number(name: str) -> None:
    import tvm
    from tvm import relay

    build, sizes, expected = CASES[name]
    x = relay.var("x", shape=(2, 3, 4))
    made = build(relay, x, relay.Constant(tvm.nd.array(np.array(sizes, "int64"))))
    assert not made.op.name.startswith("dyn.")
    value = RNG.random((2, 3, 4), "float32")
    np.testing.assert_array_equal(run("graph", made, {x: value}), expected(value))


def test_what_is_not_sliced_keeps_its_size() -> None:
    from tvm import relay

    x, s = relay.var("x", shape=(2, 3, 4)), relay.var("s", shape=(2,), dtype="int64")
    made = relay.testing.run_infer_type(relay.strided_slice(x, s, [2, 3]))
    assert made.checked_type.shape[2] == 4
    assert made.checked_type.shape[0] is relay.Any()
    with pytest.raises(InputError, match="`axes` is left out"):
        relay.strided_slice(x, s, [2, 3], axes=[0, 1])


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("known", [True, False])
def test_the_nearest_element_is_the_one_before_but_for_aligned_corners(mode: str, known: bool) -> None:
    from tvm import relay

    value = RNG.random((1, 2, 4, 4), "float32")
    x, s = relay.var("x", shape=value.shape), relay.var("s", shape=(2,), dtype="int64")
    options = {"method": "nearest_neighbor", "coordinate_transformation_mode": mode}
    at = {
        "asymmetric": np.arange(10) * 0.4,
        "half_pixel": (np.arange(10) + 0.5) * 0.4 - 0.5,
        "align_corners": np.arange(10) / 3 + 0.5,  # rounded
    }[mode]
    positions = np.clip(np.floor(at).astype(int), 0, 3)
    if known:
        found = run("graph", relay.image.resize2d(x, (10, 10), **options), {x: value})
    else:
        found = run("vm", relay.image.resize2d(x, s, **options), {x: value, s: np.array([10, 10], "int64")})
    np.testing.assert_array_equal(found, value[:, :, positions][..., positions])


def test_resizing_to_another_type() -> None:
    from tvm import relay

    value = RNG.integers(0, 255, (1, 1, 2, 2)).astype("uint8")
    x = relay.var("x", shape=value.shape, dtype="uint8")
    options = {"coordinate_transformation_mode": "align_corners", "out_dtype": "float32"}
    found = run("graph", relay.image.resize2d(x, (3, 3), **options), {x: value})
    rows = np.stack([value[0, 0, 0], value[0, 0].mean(0), value[0, 0, 1]])
    expected = np.stack([rows[:, 0], rows.mean(1), rows[:, 1]], 1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-6)


def test_fields_of_a_tuple_are_the_body_of_a_function() -> None:
    from tvm import relay

    x = relay.var("x", shape=(2, 6))
    parts = relay.split(x, 3, axis=1)
    func = relay.Function([x], parts)
    assert len(relay.testing.run_infer_type(func).checked_type.ret_type.fields) == 3
    assert [field.checked_type.shape for field in relay.testing.run_infer_type(parts)] == [(2, 2)] * 3


def test_walkers_of_types() -> None:
    import tvm
    from tvm import relay

    class Wider(relay.TypeMutator):  # type: ignore[misc]
        """Tensors of float16 become float32."""

        def visit_tensor_type(self, tt: Any) -> Any:
            return relay.TensorType(tt.shape, "float32") if tt.dtype == "float16" else tt

        def visit_type_var(self, tv: Any) -> Any:
            """The variable itself, which has no parts."""
            return tv

    class Names(relay.TypeVisitor):  # type: ignore[misc]
        """Collects type variables."""

        def __init__(self) -> None:
            self.found: list[str] = []

        def visit_type_var(self, tv: Any) -> None:
            self.found.append(tv.name)

    half, a = relay.TensorType((2,), "float16"), relay.TypeVar("a")
    kind = relay.FuncType([half, relay.TupleType([a, half])], a, [a])
    with pytest.raises(NotImplementedError, match="TypeFunctor has no method visit_func_type"):
        relay.TypeFunctor().visit(kind)
    with pytest.raises(NotImplementedError, match="ExprFunctor has no method visit_var"):
        relay.ExprFunctor().visit(relay.var("x"))
    names = Names()
    names.visit(kind)
    assert names.found == ["a", "a", "a"]
    made = Wider().visit(kind)
    full = relay.TensorType((2,), "float32")
    assert tvm.ir.structural_equal(made, relay.FuncType([full, relay.TupleType([a, full])], a, [a]))
