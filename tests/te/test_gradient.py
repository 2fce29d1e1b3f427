"""te.gradient: equal to finite differences, for each kind of expression and access."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.errors import UnsupportedError


def _input(*shape, name="X"):
    return te.placeholder(shape, "float64", name=name)


def _shape(tensor):
    return tuple(int(d.value) for d in tensor.shape)


def _pointwise(function):
    def make():
        X = _input(3, 4)
        return [X], te.compute(X.shape, lambda i, j: function(X[i, j]), name="Y")

    return make


def _product():
    A, B = _input(3, 5, name="A"), _input(5, 4, name="B")
    k = te.reduce_axis((0, 5), "k")
    return [A, B], te.compute((3, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def _convolution():
    """Strided, dilated, padded."""
    X, W = _input(2, 9, name="X"), _input(3, 2, 3, name="W")
    P = te.compute(
        (2, 12),
        lambda c, i: tir.if_then_else(tir.all(i >= 1, i < 10), X[c, i - 1], tir.const(0.0, "float64")),
        name="P",
    )
    c, k = te.reduce_axis((0, 2), "c"), te.reduce_axis((0, 3), "k")
    return [X, W], te.compute((3, 4), lambda o, i: te.sum(P[c, i * 2 + k * 2] * W[o, c, k], axis=[c, k]), name="Y")


def _softmax():
    X = _input(3, 5)
    k, m = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 5), "m")
    top = te.compute((3,), lambda i: te.max(X[i, m], axis=m), name="top")
    power = te.compute((3, 5), lambda i, j: tir.exp(X[i, j] - top[i]), name="power")
    total = te.compute((3,), lambda i: te.sum(power[i, k], axis=k), name="total")
    return [X], te.compute((3, 5), lambda i, j: power[i, j] / total[i], name="Y")


def _pool():
    X = _input(8)
    k = te.reduce_axis((0, 3), "k")
    return [X], te.compute((3,), lambda i: te.max(X[i * 2 + k], axis=k), name="Y")


def _multiply_all():
    X = _input(4, 3)
    k = te.reduce_axis((0, 3), "k")
    return [X], te.compute((4,), lambda i: te.prod(X[i, k] + 3.0, axis=k), name="Y")


def _rearranged():
    """Transposed, reversed, blocked, broadcast, a diagonal, and every row read twice."""
    X = _input(4, 6)
    return [X], te.compute(
        (6, 4), lambda i, j: X[3 - j, i] * X[j, (i + 1) % 6] + X[j, j] * X[(i * 4 + j) // 6, (i * 4 + j) % 6], name="Y"
    )


def _masked_sum():
    X = _input(4, 6)
    k = te.reduce_axis((0, 6), "k")
    return [X], te.compute((4,), lambda i: te.sum(X[i, k] * X[0, k], axis=k, where=k <= i), name="Y")


def _constant_row():
    X = _input(4, 6)
    return [X], te.compute((5, 6), lambda i, j: X[2, j] * X[2, j], name="Y")


CASES = {
    "exp": _pointwise(tir.exp),
    "log": _pointwise(lambda x: tir.log(x * x + 1.0)),
    "sqrt": _pointwise(lambda x: tir.sqrt(x * x + 0.5) + tir.rsqrt(x * x + 0.5)),
    "tanh": _pointwise(lambda x: tir.tanh(x) * tir.sigmoid(x * 2.0)),
    "erf": _pointwise(lambda x: x * tir.erf(x)),
    "sin": _pointwise(lambda x: tir.sin(x) / (tir.cos(x) + 3.0)),
    "pow": _pointwise(lambda x: tir.power(x * x + 1.0, tir.const(1.5, "float64"))),
    "max": _pointwise(lambda x: tir.maximum(x, 0.0) - tir.minimum(x * 2.0, 0.3)),
    "abs": _pointwise(lambda x: tir.abs(x) + tir.select(x > 0.2, x * x, x)),
    "product": _product,
    "convolution": _convolution,
    "softmax": _softmax,
    "pool": _pool,
    "multiply_all": _multiply_all,
    "rearranged": _rearranged,
    "masked_sum": _masked_sum,
    "constant_row": _constant_row,
}


def _call(outputs, inputs, values):
    results = [np.full(_shape(t), np.nan) for t in outputs]
    func = te.lower(te.create_schedule([t.op for t in outputs]), [*inputs, *outputs], check_bounds=True)
    build(func, threads=1)["main"](*values, *results)
    return results


@pytest.mark.parametrize("name", sorted(CASES))
def test_gradients_equal_finite_differences(name):
    inputs, output = CASES[name]()
    head = te.placeholder(output.shape, "float64", name="head")
    gradients = te.gradient(output, inputs, head)
    assert [_shape(g) for g in gradients] == [_shape(t) for t in inputs]
    rng = np.random.default_rng(0)
    values = [rng.uniform(-1, 1, _shape(t)) for t in inputs]
    weight = rng.uniform(-1, 1, _shape(output))
    found = _call(gradients, [*inputs, head], [*values, weight])
    function = build(te.lower(te.create_schedule(output), [*inputs, output]), threads=1)["main"]

    def loss():
        result = np.zeros(_shape(output))
        function(*values, result)
        return float((result * weight).sum())

    for value, gradient in zip(values, found, strict=True):
        for index in np.ndindex(value.shape):
            kept, step = value[index], 1e-6
            value[index] = kept + step
            above = loss()
            value[index] = kept - step
            below = loss()
            value[index] = kept
            assert gradient[index] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-7)


def test_without_a_head_the_gradient_is_the_jacobian():
    (A, B), C = _product()
    (jacobian,) = te.gradient(C, A)
    assert _shape(jacobian) == (3, 4, 3, 5)
    b = np.random.default_rng(0).standard_normal((5, 4))
    (found,) = _call([jacobian], [A, B], [np.ones((3, 5)), b])
    np.testing.assert_allclose(found, np.einsum("ia,bj->ijab", np.eye(3), b), rtol=1e-12)


def test_second_derivatives_and_what_does_not_matter():
    X, Z = _input(5), _input(2, name="Z")
    Y = te.compute((5,), lambda i: X[i] * X[i] * X[i], name="Y")
    ones = te.compute((5,), lambda i: tir.const(1.0, "float64"), name="ones")
    first, nothing = te.gradient(Y, [X, Z], ones)
    second = te.gradient(first, X, ones)[0]
    x = np.linspace(-2, 2, 5)
    once, twice = _call([first, second], [X], [x])
    np.testing.assert_allclose(once, 3 * x**2)
    np.testing.assert_allclose(twice, 6 * x)
    assert not _call([nothing], [], [])[0].any()


def test_a_product_has_products_as_gradients():
    """No summation is left over where an index determines its axis."""
    (A, B), C = _product()
    head = te.placeholder(C.shape, "float64", name="head")
    for gradient, axis in zip(te.gradient(C, [A, B], head), ("j", "i"), strict=True):
        assert [iv.name for iv in gradient.op.reduce_axis] == [axis]
        assert "if_then_else" not in repr(gradient.op.body[0])


def test_what_cannot_be_differentiated_is_named():
    X = _input(4)
    made = te.extern((4,), [X], lambda ins, outs: tir.BufferStore(outs[0], ins[0][0], (tir.const(0),)), name="made")
    Y = te.compute((4,), lambda i: made[i] * 2.0, name="Y")
    with pytest.raises(UnsupportedError, match="cannot differentiate ExternOp made"):
        te.gradient(Y, X)
    bits = te.compute((4,), lambda i: tir.call_intrin("float64", "tgamma", X[i]), name="bits")
    with pytest.raises(UnsupportedError, match=r"tgamma\(.*\) in bits"):
        te.gradient(bits, X)
    with pytest.raises(TypeError, match=r"head has the shape \[4\], Y \[2\]"):
        te.gradient(te.compute((2,), lambda i: X[i], name="Y"), X, X)
