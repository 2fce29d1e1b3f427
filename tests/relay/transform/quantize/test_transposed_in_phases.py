"""`transposed_in_phases` against the transposed convolution, in whole numbers: strides, padding, taps."""

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Constant, Function
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.quantize.transposed_in_phases import transposed_in_phases

CASES = [
    ((2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
    ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((4, 5), (2, 3), (0, 1, 1, 0), (0, 0)),
    ((3, 3), (1, 1), (2, 1, 1, 2), (0, 0)),
    ((2, 3), (4, 4), (0, 0, 0, 0), (0, 2)),
]


@pytest.mark.parametrize(("taps", "strides", "cut", "more"), CASES)
def test_it_is_the_transposed_convolution(taps, strides, cut, more):
    rng = np.random.default_rng(0)
    image = rng.integers(-9, 9, (2, 3, 5, 6)).astype(np.float32)
    weight = rng.integers(-9, 9, (3, 4, *taps)).astype(np.float32)
    x = relay.var("x", shape=image.shape)
    exact = relay.nn.conv2d_transpose(x, Constant(weight), strides, cut, output_padding=more)

    def convolve(filters, padding):
        return relay.nn.conv2d(x, Constant(filters), padding=padding)

    ours = transposed_in_phases(convolve, weight, 0, exact.attrs, image.shape[2:], tensor_type_of(exact).shape[2:])
    one, two = (interpret(Function([x], body), {"x": image})[0] for body in (exact, ours))
    np.testing.assert_array_equal(one, two)
