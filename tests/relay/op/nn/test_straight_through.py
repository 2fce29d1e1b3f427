"""`nn.straight_through`: the value forwards, the gradient to the data backwards."""

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.interpreter.interpreter import interpret


def test_the_value_goes_forwards_and_the_gradient_to_the_data():
    x = relay.var("x", shape=(5,))
    func = relay.Function([x], relay.nn.straight_through(x * relay.const(3.0), relay.round(x)))
    values = np.array([-1.6, -0.4, 0.2, 0.7, 2.5], np.float32)
    results = interpret(relay.transform.gradient(func), [values])
    np.testing.assert_array_equal(results[0], np.rint(values))
    np.testing.assert_array_equal(results[1], np.full(5, 3.0, np.float32))


def test_shapes_and_types_that_differ_are_refused():
    x, y = relay.var("x", shape=(5,)), relay.var("y", shape=(4,))
    with pytest.raises(TypeMismatchError, match="data and value have one shape"):
        relay.transform.infer_type(relay.IRModule.from_expr(relay.Function([x, y], relay.nn.straight_through(x, y))))
