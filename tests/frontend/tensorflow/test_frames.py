"""Loops of graphs of TensorFlow 1 against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ModelError
from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.relay import interpret

tf = pytest.importorskip("tensorflow", reason="tensorflow, which these numbers are compared with, is not installed")


@pytest.fixture(autouse=True)
def old_loops() -> Iterator[None]:
    tf.compat.v1.disable_control_flow_v2()
    yield
    tf.compat.v1.enable_control_flow_v2()


def agrees(build: Callable[..., Any], *inputs: np.ndarray) -> Any:
    """Check that a graph computes what TensorFlow does; return the graph, frozen."""
    with tf.Graph().as_default() as graph:
        positions = [
            tf.compat.v1.placeholder(value.dtype, value.shape, name=f"x{number}") for number, value in enumerate(inputs)
        ]
        result = tf.identity(build(*positions), name="y")
        with tf.compat.v1.Session(graph=graph) as session:
            wanted = session.run(result, dict(zip(positions, inputs)))
        frozen = graph.as_graph_def()
    assert any(node.op == "Exit" for node in frozen.node)
    module, specs = from_tensorflow(frozen.SerializeToString(), outputs=["y"])
    found = interpret(module, dict(zip([spec.name for spec in specs], inputs)))[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return frozen


X = np.linspace(-1, 1, 6).astype("float32").reshape(2, 3)


def test_rounds_that_are_known() -> None:
    agrees(lambda x: tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, tf.tanh(v) + x), [0, x])[1], X)


def test_rounds_that_the_numbers_decide() -> None:
    def build(x: Any, limit: Any) -> Any:
        return tf.while_loop(lambda i, v: tf.reduce_sum(v) < limit, lambda i, v: (i + 1, v + tf.abs(x)), [0, x])[1]

    agrees(build, X, np.float32(20))


def test_a_loop_within_a_loop() -> None:
    def build(x: Any, limit: Any) -> Any:
        def outer(i: Any, v: Any) -> Any:
            inner = tf.while_loop(lambda j, w: j < i + 2, lambda j, w: (j + 1, w * 0.5 + x), [0, v])
            return i + 1, inner[1]

        return tf.while_loop(lambda i, v: i < limit, outer, [0, x])[1]

    agrees(build, X, np.int32(4))


def test_arrays_that_a_loop_fills() -> None:
    def build(x: Any) -> Any:
        taken = tf.TensorArray(tf.float32, 4).unstack(tf.stack([x, x + 1, x * 2, -x]))

        def body(i: Any, state: Any, made: Any) -> Any:
            state = tf.tanh(state + taken.read(i))
            return i + 1, state, made.write(i, state)

        made = tf.while_loop(lambda i, *_: i < 4, body, [0, x * 0, tf.TensorArray(tf.float32, 4)])[2]
        return made.stack()

    agrees(build, X)


def test_a_recurrent_layer_of_old() -> None:
    weights = tf.constant(np.random.default_rng(0).normal(size=(7, 4)).astype("float32")).numpy()

    def build(x: Any) -> Any:
        steps = tf.unstack(tf.transpose(x, [1, 0, 2]))
        taken = tf.TensorArray(tf.float32, len(steps)).unstack(tf.stack(steps))

        def body(i: Any, h: Any, made: Any) -> Any:
            h = tf.tanh(tf.matmul(tf.concat([taken.read(i), h], 1), weights))
            return i + 1, h, made.write(i, h)

        start = [0, tf.zeros([2, 4]), tf.TensorArray(tf.float32, len(steps))]
        return tf.transpose(tf.while_loop(lambda i, *_: i < len(steps), body, start)[2].stack(), [1, 0, 2])

    agrees(build, np.random.default_rng(1).normal(size=(2, 5, 3)).astype("float32"))


def test_a_loop_that_is_not_whole_is_refused() -> None:
    frozen = agrees(lambda x: tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + x), [0, x])[1], X)
    for kind, says in (("NextIteration", "has no NextIteration"), ("Enter", "has no Enter")):
        broken = tf.compat.v1.GraphDef.FromString(frozen.SerializeToString())
        for node in broken.node:
            if node.op == "Merge":
                named = {one.name: one for one in broken.node}
                for position, one in enumerate(node.input):
                    if named[one.partition(":")[0]].op == kind:
                        node.input[position] = "x0"
        with pytest.raises(ModelError, match=says):
            from_tensorflow(broken.SerializeToString(), outputs=["y"])
