"""One compilation of symbolic dimensions runs at any size, equal to the reference at each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.backend.cpu.schedule import layout
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Constant, Expr, Function, Tuple, Var, const
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of

H, W = te.size_var("H", hint=24), te.size_var("W", hint=40)
SIZES = [(17, 23), (32, 32), (8, 40)]
Shapes = tuple[tuple[Any, ...], ...]


@functools.cache
def weight(*shape: int) -> Constant:
    """The same random numbers for the same shape."""
    return const(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) / 4)


def shape_of(x: Expr) -> tuple[Any, ...]:
    assert isinstance(x, Var) and isinstance(x.type_annotation, TensorType)
    return x.type_annotation.shape


def convolution(x: Expr) -> Expr:
    return op.nn.conv2d(x, weight(32, 3, 3, 3), strides=2, padding=1)


IMAGE: Shapes = ((1, 3, H, W),)
BLOCKED: Shapes = ((1, 16, H, W),)
ODD: Shapes = ((2, 42, H, W),)
WIDE: Shapes = ((1, 32, H, W),)
CASES: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "elementwise": (lambda x: op.nn.relu(op.add(op.exp(x), weight(3, 1, 1))), IMAGE),
    "group_norm": (
        lambda x: op.nn.group_norm(x, weight(6), weight(6), num_groups=3, axis=1),
        ((2, 6, H, W),),
    ),
    "instance_norm": (lambda x: op.nn.instance_norm(x, weight(6), weight(6), axis=1), ((2, 6, H, W),)),
    "static_between_kernels": (lambda x: op.sqrt(op.sum(op.multiply(x, x))), ((4, H, 3, W),)),
    "conv2d": (lambda x: op.nn.relu(op.nn.conv2d(convolution(x), weight(48, 32, 3, 3), padding=1)), IMAGE),
    "1x1": (lambda x: op.nn.relu(op.nn.conv2d(x, weight(35, 42, 1, 1))), ODD),
    "1x1_strided": (lambda x: op.nn.conv2d(x, weight(35, 42, 1, 1), strides=2), ODD),
    "1x1_blocked": (
        lambda x: op.add(op.nn.relu(op.nn.conv2d(x, weight(64, 64, 1, 1))), x),
        ((2, 64, H, W),),
    ),
    "winograd": (lambda x: op.nn.relu(op.nn.conv2d(x, weight(32, 32, 3, 3), padding=1)), WIDE),
    "winograd_batch": (lambda x: op.nn.conv2d(x, weight(32, 32, 3, 3), padding=1), ((W, 32, H, 20),)),
    "winograd_strided": (lambda x: op.nn.conv2d(x, weight(64, 32, 3, 3), strides=2, padding=1), WIDE),
    "winograd_5x5": (lambda x: op.nn.conv2d(x, weight(32, 32, 5, 5), padding=2), WIDE),
    "depthwise": (lambda x: op.nn.conv2d(convolution(x), weight(32, 1, 3, 3), padding=1, groups=32), IMAGE),
    "residual": (lambda x: op.add(op.nn.conv2d(x, weight(16, 16, 3, 3), padding=1), x), BLOCKED),
    "max_pool": (lambda x: op.nn.max_pool2d(convolution(x), (3, 3), (2, 2), (1, 1)), IMAGE),
    "ceil_pool": (lambda x: op.nn.max_pool2d(x, (2, 2), (2, 2), ceil_mode=True), IMAGE),
    "avg_pool": (lambda x: op.nn.avg_pool2d(x, (3, 3), (2, 2), (1, 1)), IMAGE),
    "mean": (lambda x: op.mean(x, axis=[2, 3]), IMAGE),
    "softmax": (lambda x: op.nn.softmax(x, axis=-1), ((H, W),)),
    "layer_norm": (lambda x: op.nn.layer_norm(x, weight(64), weight(64)), ((1, H, 64),)),
    "dense": (lambda x: op.nn.dense(x, weight(100, 64)), ((H, 64),)),
    "batch_matmul": (lambda x, y: op.nn.batch_matmul(x, y), ((2, H, 64), (2, W, 64))),
    "transpose": (lambda x: op.transpose(x, (0, 2, 3, 1)), IMAGE),
    "reshape": (lambda x: op.reshape(op.exp(x), (3, -1)), IMAGE),
    "concatenate": (lambda x, y: op.concatenate([op.exp(x), op.exp(y)], 0), ((H, 3), (W, 3))),
    "strided_slice": (lambda x: op.strided_slice(x, [1, 0], [2**31 - 1, -1], axes=[0, 1]), ((H, W),)),
    "strided_slice_steps": (lambda x: op.strided_slice(op.exp(x), [0], [2**31 - 1], [2], axes=[0]), ((H, W),)),
    "take": (lambda x: op.take(x, const(np.array([0, 2, 1])), axis=0), ((H, W),)),
    "transposed": (lambda x: op.nn.conv2d_transpose(x, weight(16, 16, 2, 2), strides=(2, 2)), BLOCKED),
    "pad": (lambda x: op.nn.pad(x, ((0, 0), (0, 0), (1, 2), (3, 4))), IMAGE),
    "nearest": (
        lambda x: op.image.resize2d(
            x,
            (shape_of(x)[2] * 2, shape_of(x)[3] * 2),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        BLOCKED,
    ),
    "linear": (lambda x: op.image.resize2d(x, (shape_of(x)[2] * 2, 40)), BLOCKED),
    "several": (lambda x: Tuple([x, op.exp(x), op.reshape(x, (-1,))]), ((H, W),)),
}


def model(build: Callable[..., Any], shapes: Shapes) -> IRModule:
    """A module of the inputs x0, x1, … of `shapes`."""
    inputs = [Var(f"x{i}", TensorType(shape)) for i, shape in enumerate(shapes)]
    return IRModule.from_expr(Function(inputs, build(*inputs)))


def at(shapes: Shapes, h: int, w: int) -> Shapes:
    """`shapes` with numbers for H and W."""
    return tuple(tuple(h if d is H else w if d is W else d for d in shape) for shape in shapes)


def random(shapes: Shapes) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(11)
def test_any_size_without_compiling_again(name: str) -> None:
    build, shapes = CASES[name]
    exe = tw.compile(model(build, shapes), threads=2)
    assert exe.executor == "graph"
    for h, w in SIZES:
        arrays = random(at(shapes, h, w))
        wanted = interpret(model(build, at(shapes, h, w)), arrays)
        got = exe.run({f"x{i}": array for i, array in enumerate(arrays)})
        for g, expected in zip(got, wanted, strict=True):
            assert g.shape == expected.shape
            np.testing.assert_allclose(g, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("winograd")])
@pytest.mark.parametrize("size", [(1, 1), (3, 70), (61, 2)])
@pytest.mark.sample(4)
def test_winograd_convolution_of_images_unlike_the_hint(
    name: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    priced = layout._priced

    def at_no_cost(tag: str, *args: Any) -> Any:
        way = priced(tag, *args)
        return replace(way, cost=0.0) if tag == "conv2d_winograd_NCHWc" else way

    monkeypatch.setattr(layout, "_priced", at_no_cost)  # so it is chosen on every processor
    build, shapes = CASES[name]
    exe = tw.compile(model(build, shapes), threads=1, cache=False)
    assert any("winograd" in kernel.name for kernel in exe.manifest.kernels)
    arrays = random(at(shapes, *size))
    (wanted,) = interpret(model(build, at(shapes, *size)), arrays)
    np.testing.assert_allclose(exe(*arrays), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["conv2d", "1x1", "1x1_blocked", "depthwise", "residual", "transposed"])
@pytest.mark.sample(3)
def test_images_smaller_than_a_tile(name: str) -> None:
    build, shapes = CASES[name]
    exe = tw.compile(model(build, shapes), threads=1)
    for size in [(1, 1), (2, 3), (9, 4), (3, 17), (1, 20)]:
        arrays = random(at(shapes, *size))
        (wanted,) = interpret(model(build, at(shapes, *size)), arrays)
        np.testing.assert_allclose(exe(*arrays), wanted, rtol=1e-4, atol=1e-4)


def test_memory_does_not_grow_with_the_shapes_seen() -> None:
    exe = tw.compile(model(*CASES["conv2d"]), threads=1)
    rng = np.random.default_rng(2)
    exe(*random(at(IMAGE, 40, 40)))
    arena, plans = exe._program.memory.arena.address, exe._program.shapes[0]._plans
    for _ in range(200):
        exe(*random(at(IMAGE, *rng.integers(3, 40, 2))))
    assert exe._program.memory.arena.address == arena and len(plans) <= 64


def test_saving_keeps_the_symbolic_sizes(tmp_path: Any) -> None:
    exe = tw.compile(model(*CASES["residual"]))
    exe.save(tmp_path / "model.tw")
    (x,) = random(at(BLOCKED, 9, 11))
    np.testing.assert_array_equal(tw.load(tmp_path / "model.tw")(x), exe(x))
    assert str(exe.inputs[0]) == "x0: float32[1, 16, H, W]"


def test_profile_of_symbolic_sizes() -> None:
    exe = tw.compile(model(*CASES["conv2d"]))
    rows = exe.profile({"x0": random(at(IMAGE, 16, 16))[0]})
    assert rows and all(row.seconds > 0 for row in rows)


# ------------------------------------------------------------------------------------------------------ errors
def test_sizes_that_must_agree() -> None:
    exe = tw.compile(model(lambda x, y: op.add(op.exp(x), y), ((H, 4), (H, 4))))
    with pytest.raises(InputError, match=r"input 'x1' has size 5 along axis 0, which must be H = 3 where H = 3"):
        exe(*random(((3, 4), (5, 4))))


def test_a_wrong_fixed_size() -> None:
    exe = tw.compile(model(*CASES["dense"]))
    with pytest.raises(
        InputError, match=r"input 'x0' has the wrong shape: float32\[3, 65\] given, float32\[H, 64\] exp"
    ):
        exe(*random(((3, 65),)))


def test_sizes_that_are_taken_to_be_equal_are_checked() -> None:
    exe = tw.compile(model(lambda x, y: op.add(op.exp(x), y), ((H, 4), (W, 4))))
    x, y = random(((3, 4), (3, 4)))
    np.testing.assert_allclose(exe(x, y), np.exp(x) + y, rtol=1e-6)
    with pytest.raises(InputError, match="H = 3 and W = 5 must be equal"):
        exe(*random(((3, 4), (5, 4))))


def test_sizes_of_a_reshape_that_moves_no_bytes_are_checked() -> None:
    mod = model(lambda x, y: Tuple([op.nn.softmax(op.reshape(x, (W, 64))), op.exp(y)]), ((H, 64), (W,)))
    compiled = tw.compile(mod, threads=1, cache=False)
    x = np.zeros((3, 64), np.float32)
    assert compiled(x, np.zeros(3, np.float32))[0].shape == (3, 64)
    with pytest.raises(InputError, match=r"H \* 64 = 192 and W \* 64 = 256 must be equal"):
        compiled(x, np.zeros(4, np.float32))


def test_a_dimension_that_no_input_tells() -> None:
    with pytest.raises(UnsupportedError, match="no input has the dimension H by itself"):
        tw.compile(model(lambda x: op.exp(x), ((H * 2, 4),)))


def test_the_number_of_elements_of_an_open_size() -> None:
    x = Var("x", TensorType((H, 3), "float32"))
    model = tw.compile(IRModule.from_expr(Function([x], op.ndarray_size(x))), cache=False)
    assert [int(model(np.ones((height, 3), np.float32))) for height in (4, 1, 7)] == [12, 3, 21]


def attention(masked: bool) -> Callable[..., Any]:
    """Attention over H rows and W columns of two heads, spelled out as models have it."""

    def build(query: Expr, key: Expr, value: Expr, mask: Expr) -> Expr:
        def heads(x: Expr) -> Expr:
            shape = tensor_type_of(x).shape
            return op.reshape(x, (shape[0] * 2, *shape[2:]))

        scores = op.multiply(op.nn.batch_matmul(heads(query), heads(key)), const(0.25))
        scores = op.reshape(scores, (B, 2, H, W))
        weights = op.nn.softmax(op.add(scores, mask) if masked else scores, axis=-1)
        weights = op.reshape(weights, (B * 2, H, W))
        made = op.nn.batch_matmul(weights, heads(value), transpose_b=False)
        return op.transpose(op.reshape(made, (B, 2, H, 16)), (0, 2, 1, 3))

    return build


B = te.size_var("B", hint=2)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_symbolic_lengths_is_one_kernel(masked: bool) -> None:
    def shapes(b: Any, h: Any, w: Any) -> Shapes:
        return ((b, 2, h, 16), (b, 2, w, 16), (b, 2, w, 16), (b, 1, h, w) if masked else (1, 1, 1, 1))

    exe = tw.compile(model(attention(masked), shapes(B, H, W)), threads=2, cache=False)
    assert "attention" in {kernel.choice.get("template") for kernel in exe.manifest.kernels}
    for b, h, w in [(1, 1, 1), (1, 2, 3), (2, 13, 33), (1, 14, 32), (3, 15, 16), (1, 40, 31), (2, 5, 70), (0, 4, 4)]:
        arrays = random(shapes(b, h, w))
        scores = np.einsum("bhrd,bhcd->bhrc", arrays[0], arrays[1]) / 4 + (arrays[3] if masked else 0)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
        weights /= weights.sum(-1, keepdims=True)
        wanted = np.einsum("bhrc,bhcd->brhd", weights, arrays[2])
        np.testing.assert_allclose(exe(*arrays), wanted, rtol=2e-4, atol=2e-5, err_msg=f"at {b}, {h}, {w}")


def test_rows_of_several_symbolic_axes() -> None:
    build: Callable[..., Any] = lambda x, y: op.nn.relu(op.add(op.nn.dense(x, weight(48, 24)), y))  # noqa: E731
    exe = tw.compile(model(build, ((H, W, 24), (H, W, 48))), threads=2, cache=False)
    for h, w in [(1, 1), (1, 33), (5, 3), (7, 40), (0, 3), (3, 0)]:
        arrays = random(((h, w, 24), (h, w, 48)))
        (wanted,) = interpret(model(build, ((h, w, 24), (h, w, 48))), arrays)
        np.testing.assert_allclose(exe(*arrays), wanted, rtol=1e-4, atol=1e-4, err_msg=f"at {h}, {w}")
