"""A function for several samples against the same for each by itself."""

import numpy as np

from tests.quantize.models import images, network
from tilewright import relay
from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize.batch import of_batch
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule


def module(func):
    return infer_type(IRModule({relay.GlobalVar("main"): func}))


def test_rows_are_those_of_single_samples():
    mod = import_model(network(), None)
    params, (body,) = of_batch(mod["main"], [mod["main"].body], 4)
    x = images(4)["x"]
    (found,) = interpret(module(Function(params, body)), {"x": x})
    alone = np.concatenate([interpret(mod, {"x": one[None]})[0] for one in x])
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)


def test_reshapes_of_a_sample_keep_samples_apart():
    x = relay.var("x", shape=(1, 6))
    mod = module(Function([x], relay.reshape(relay.reshape(x, (1, 2, 3)), (1, 3, 2))))
    params, (body,) = of_batch(mod["main"], [mod["main"].body], 5)
    values = np.arange(30, dtype=np.float32).reshape(5, 6)
    (found,) = interpret(module(Function(params, body)), {"x": values})
    np.testing.assert_array_equal(found, values.reshape(5, 3, 2))


def test_functions_whose_results_do_not_follow_have_none():
    x = relay.var("x", shape=(1, 6))
    many = relay.var("x", shape=(2, 6))
    for params, body in (([x], relay.reshape(x, (6,))), ([x], relay.sum(x)), ([many], relay.nn.relu(many))):
        main = module(Function(params, body))["main"]
        assert of_batch(main, [main.body], 4) is None
