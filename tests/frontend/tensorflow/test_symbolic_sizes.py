"""Functions of TensorFlow whose sizes stay open: loops that fill lists, dilated convolutions, tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import UnsupportedError

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

rng = np.random.default_rng(4)
KERNEL = rng.standard_normal((2, 4, 3)).astype("f")
MATRIX = rng.standard_normal((4, 4)).astype("f") * 0.3


def saved(function: Callable[..., Any], folder: Path, *specs: Any, **fields: Any) -> Path:
    module = tf.Module()
    for name, value in fields.items():
        setattr(module, name, value)
    module.call = tf.function(function, autograph=False)
    tf.saved_model.save(module, str(folder), signatures=module.call.get_concrete_function(*specs))
    return folder


def agrees(folder: Path, *shapes: tuple[int, ...], given: Any = None, executor: str | None = None) -> None:
    """One executable at several sizes, beside TensorFlow."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    executable = tw.compile(folder, input_shapes=given, cache=False)
    assert executor in (None, executable.executor)
    for shape in shapes:
        x = rng.standard_normal(shape).astype("f")
        (wanted,) = signature(x=tf.constant(x)).values()
        found = np.asarray(executable.run({"x": x})[0])
        assert found.shape == tuple(wanted.shape)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def spec(*extents: int | None) -> Any:
    return tf.TensorSpec(extents, tf.float32, name="x")


def recurrent(x: Any) -> Any:
    """h = tanh(x[t] + h @ MATRIX), every h."""
    steps = tf.transpose(x, (1, 0, 2))
    count = tf.shape(steps)[0]
    rows = tf.TensorArray(tf.float32, count).unstack(steps)
    made = tf.TensorArray(tf.float32, count)

    def body(t: Any, h: Any, made: Any) -> Any:
        h = tf.tanh(rows.read(t) + h @ MATRIX)
        return t + 1, h, made.write(t, h)

    _, _, made = tf.while_loop(lambda t, *_: t < count, body, (0, tf.zeros_like(steps[0]), made))
    return tf.transpose(made.stack(), (1, 0, 2))


def test_a_loop_over_a_symbolic_length(tmp_path: Path) -> None:
    folder = saved(recurrent, tmp_path, spec(None, None, 4))
    agrees(folder, (2, 5, 4), (3, 1, 4), (1, 9, 4), executor="vm")
    agrees(folder, (2, 5, 4), (3, 5, 4), given={"x": ("batch", 5, 4)}, executor="graph")


def test_loops_behind_each_other_over_a_length_that_is_computed(tmp_path: Path) -> None:
    agrees(saved(lambda x: recurrent(tf.repeat(recurrent(x), 2, 1)), tmp_path, spec(2, None, 4)), (2, 3, 4), (2, 1, 4))


def test_a_list_of_which_rounds_write_one_element(tmp_path: Path) -> None:
    def last(x: Any) -> Any:
        made = tf.TensorArray(tf.float32, 1)
        body = lambda t, made: (t + 1, made.write(0, x[:, t] * 2.0))  # noqa: E731
        return tf.while_loop(lambda t, _: t < tf.shape(x)[1], body, (0, made))[1].stack()[0]

    agrees(saved(last, tmp_path, spec(2, None, 4)), (2, 3, 4), (2, 1, 4))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("length", [None, 9])
def test_a_dilated_convolution(padding: str, length: int | None, tmp_path: Path) -> None:
    """TensorFlow cuts the batch into blocks for it; what is read is one convolution."""

    def convolved(x: Any) -> Any:
        return tf.nn.convolution(x, KERNEL, padding=padding, dilations=3)

    folder = saved(convolved, tmp_path, spec(None, length, 4))
    agrees(folder, (2, 9, 4), (1, 9, 4), *([(3, 7, 4), (1, 4, 4)] if length is None else []), executor="graph")


def test_blocks_that_are_no_convolution(tmp_path: Path) -> None:
    def blocks(x: Any) -> Any:
        cut = tf.space_to_batch(x, [2], [[0, 0]])
        return tf.batch_to_space(cut + tf.reduce_mean(cut, keepdims=True), [2], [[1, 0]])

    agrees(saved(blocks, tmp_path, spec(3, 6, 4)), (3, 6, 4))


def test_a_variable_that_changes_and_that_no_result_reads(tmp_path: Path) -> None:
    seed, scale = tf.Variable(1.0), tf.Variable(2.0)

    def drawn(x: Any) -> Any:
        seed.assign_add(1.0)
        return x * scale

    agrees(saved(drawn, tmp_path, spec(2), seed=seed, scale=scale), (2,))


def test_a_variable_that_changes_and_that_a_result_reads(tmp_path: Path) -> None:
    count = tf.Variable(1.0)

    def counted(x: Any) -> Any:
        count.assign_add(1.0)
        return x * count

    with pytest.raises(UnsupportedError, match="changes a variable while the model runs"):
        tw.compile(saved(counted, tmp_path, spec(2), count=count), cache=False)


def test_a_table_of_numbers(tmp_path: Path) -> None:
    keys, values = tf.constant([7, 3, 5], tf.int64), tf.constant([1, 2, 3], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)

    def found(x: Any) -> Any:
        return table.lookup(tf.cast(x * 4, tf.int64))

    agrees(saved(found, tmp_path, spec(None, 40), table=table), (2, 40), (1, 40))


def test_a_table_of_text_is_refused_by_name(tmp_path: Path) -> None:
    filled = tf.lookup.KeyValueTensorInitializer(tf.constant(["a"]), tf.constant([1], tf.int64))
    table = tf.lookup.StaticHashTable(filled, -1)

    def found(x: Any) -> Any:
        return table.lookup(tf.strings.as_string(x))

    with pytest.raises(UnsupportedError, match=r"HashTableV2 .* a table of strings"):
        tw.compile(saved(found, tmp_path, spec(2), table=table), cache=False)


def test_counts_and_buckets(tmp_path: Path) -> None:
    def counted(x: Any) -> Any:
        codes = tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5])
        return tf.math.bincount(codes, minlength=6, maxlength=6, axis=-1, dtype=tf.int32)

    agrees(saved(counted, tmp_path, spec(2, 30)), (2, 30))
