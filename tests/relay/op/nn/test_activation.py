"""Activations, bias and padding."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.reference.layout import layout_transform

X = np.random.default_rng(8).standard_normal((2, 4, 3, 3)).astype("float32")


def test_relu_and_leaky_relu(check):
    check(op.nn.relu(const(X)), np.maximum(X, 0))
    check(op.nn.relu(const((X * 9).astype("int32"))), np.maximum((X * 9).astype("int32"), 0))
    check(op.nn.leaky_relu(const(X), 0.1), np.where(X > 0, X, X * np.float32(0.1)))


def test_vectors_along_an_axis(check):
    vector = np.array([0.5, -1, 2, 0.25], "float32")
    column = vector.reshape(4, 1, 1)
    check(op.nn.bias_add(const(X), const(vector)), X + column)
    check(op.nn.bias_add(const(X[0]), const(vector), axis=-3), X[0] + column)
    check(op.nn.prelu(const(X), const(vector)), np.where(X > 0, X, X * column))
    check(op.nn.prelu(const(X), const(vector[:1])), np.where(X > 0, X, X * 0.5))


def test_vectors_beside_blocked_data(check):
    vector = np.array([0.5, -1, 2, 0.25], "float32")
    blocked, pairs = layout_transform(X, "NCHW", "NCHW2c"), vector.reshape(2, 2)
    plain = X + vector.reshape(4, 1, 1)
    check(op.nn.bias_add(const(blocked), const(pairs)), layout_transform(plain, "NCHW", "NCHW2c"))


def test_padding_agrees_with_numpy_and_cuts_where_negative(check):
    width = ((0, 0), (1, 0), (2, 1), (0, 3))
    check(op.nn.pad(const(X), width, 1.5), np.pad(X, width, constant_values=1.5))
    width = ((0, 0), (1, 0), (2, 1), (0, 2))
    check(op.nn.pad(const(X), width, pad_mode="reflect"), np.pad(X, width, mode="reflect"))
    check(op.nn.pad(const(X), width, pad_mode="edge"), np.pad(X, width, mode="edge"))
    check(
        op.nn.pad(const(X), ((0, 0), (-1, 0), (1, -2), (0, 0))), np.pad(X[:, 1:, :1], ((0, 0), (0, 0), (1, 0), (0, 0)))
    )


def test_operands_that_do_not_fit_are_refused():
    with pytest.raises(TypeMismatchError, match="one value for each of 4 channels"):
        type_of(op.nn.bias_add(const(X), const(np.zeros(3, "float32"))))
    with pytest.raises(TypeMismatchError, match="reflects more than there is"):
        type_of(op.nn.pad(const(X), ((0, 0), (0, 0), (3, 0), (0, 0)), pad_mode="reflect"))
    with pytest.raises(TypeMismatchError, match="pad_width has 1 pairs for 4 dimensions"):
        type_of(op.nn.pad(const(X), ((0, 0),)))
