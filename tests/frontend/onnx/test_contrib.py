"""Operators of onnxruntime's own domain against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracles import product_outputs

RNG = np.random.default_rng(1)
MS = "com.microsoft"


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


SCALE, ZERO = np.float32(0.05), np.uint8(120)

CASES: list[tuple[str, list[Any], list[Any], int, dict[str, Any]]] = [
    ("Gelu", [floats(2, 8)], [], 1, {}),
    ("BiasGelu", [floats(2, 8)], [floats(8)], 1, {}),
    ("FastGelu", [floats(2, 8)], [floats(8)], 1, {}),
    ("QuickGelu", [floats(2, 8)], [], 1, {"alpha": 1.5}),
    ("FusedConv", [floats(1, 3, 6, 6)], [floats(4, 3, 3, 3), floats(4)], 1, {"activation": "Relu", "pads": [1] * 4}),
    (
        "FusedConv",
        [floats(1, 3, 6, 6)],
        [floats(4, 3, 3, 3), floats(4)],
        1,
        {"activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    ("FusedMatMul", [floats(2, 4, 3), floats(2, 5, 3)], [], 1, {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [floats(2, 3, 4), floats(2, 3, 5)], [], 1, {"transA": 1}),
    ("FusedGemm", [floats(3, 4)], [floats(4, 5), floats(5)], 1, {"activation": "Relu"}),
    (
        "SkipLayerNormalization",
        [floats(2, 4, 8), floats(2, 4, 8)],
        [floats(8), floats(8), floats(8)],
        1,
        {"epsilon": 1e-5},
    ),
    ("SkipSimplifiedLayerNormalization", [floats(2, 4, 8), floats(2, 4, 8)], [floats(8)], 1, {"epsilon": 1e-5}),
    ("Attention", [floats(2, 5, 8)], [floats(8, 24), floats(24)], 1, {"num_heads": 2}),
    ("Attention", [floats(2, 5, 8)], [floats(8, 24), floats(24)], 1, {"num_heads": 2, "unidirectional": 1}),
    (
        "Attention",
        [floats(2, 5, 8)],
        [floats(8, 24), floats(24), np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])],
        1,
        {"num_heads": 2},
    ),
    ("MultiHeadAttention", [floats(2, 5, 8), floats(2, 6, 8), floats(2, 6, 8)], [floats(24)], 1, {"num_heads": 2}),
    ("RotaryEmbedding", [floats(2, 4, 5, 8), np.arange(10).reshape(2, 5)], [floats(12, 4), floats(12, 4)], 1, {}),
    (
        "RotaryEmbedding",
        [floats(2, 4, 5, 8), np.arange(10).reshape(2, 5)],
        [floats(12, 4), floats(12, 4)],
        1,
        {"interleaved": 1},
    ),
    ("QLinearAdd", [bytes_(2, 5)], [SCALE, ZERO, bytes_(2, 5), SCALE, ZERO, np.float32(0.1), ZERO], 1, {}),
    ("QLinearMul", [bytes_(2, 5)], [SCALE, ZERO, bytes_(2, 5), SCALE, ZERO, np.float32(0.1), ZERO], 1, {}),
    ("QLinearSigmoid", [bytes_(2, 5)], [SCALE, ZERO, np.float32(1 / 256), np.uint8(0)], 1, {}),
    ("QLinearLeakyRelu", [bytes_(2, 5)], [SCALE, ZERO, SCALE, ZERO], 1, {"alpha": 0.2}),
    ("QLinearGlobalAveragePool", [bytes_(1, 3, 4, 4)], [SCALE, ZERO, SCALE, ZERO], 1, {}),
    ("MatMulNBits", [floats(3, 32)], [bytes_(5, 2, 8), floats(10)], 1, {"K": 32, "N": 5, "bits": 4, "block_size": 16}),
    (
        "MatMulNBits",
        [floats(3, 32)],
        [bytes_(5, 2, 8), floats(10), bytes_(5)],
        1,
        {"K": 32, "N": 5, "bits": 4, "block_size": 16},
    ),
    ("ExpandDims", [floats(2, 3)], [np.int32(1)], 1, {}),
    ("Attention", [floats(2, 5, 8)], [floats(8, 24), floats(24), np.int32([3, 5])], 1, {"num_heads": 2}),
    ("Attention", [floats(2, 5, 8)], [floats(8, 24), floats(24), np.int32([3, 5, 1, 0])], 1, {"num_heads": 2}),
    ("Attention", [floats(2, 3, 8)], [floats(8, 24), floats(24), None, floats(2, 2, 2, 4, 4)], 2, {"num_heads": 2}),
    (
        "MultiHeadAttention",
        [floats(2, 5, 8), floats(2, 6, 8), floats(2, 6, 8)],
        [None, np.int32([3, 6])],
        1,
        {"num_heads": 2},
    ),
    ("RotaryEmbedding", [floats(2, 5, 16), np.array([3])], [floats(12, 4), floats(12, 4)], 1, {"num_heads": 2}),
    (
        "RotaryEmbedding",
        [floats(2, 5, 16), np.array([3])],
        [floats(12, 2), floats(12, 2)],
        1,
        {"num_heads": 2, "rotary_embedding_dim": 4},
    ),
    ("Trilu", [floats(4, 5)], [np.int64(1)], 1, {"upper": 1}),
    ("GatherND", [floats(4, 5), np.array([[0, 1], [2, 3]])], [], 1, {}),
    ("Pad", [floats(2, 3)], [np.array([0, 1, 0, 1]), np.float32(2)], 1, {}),
    ("Range", [], [np.float32(0), np.float32(5), np.float32(1)], 1, {}),
    ("GridSample", [floats(1, 2, 4, 4), floats(1, 3, 3, 2).clip(-1, 1)], [], 1, {}),
]


@pytest.mark.parametrize(
    ("name", "inputs", "consts", "outputs", "attributes"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_each_operator_agrees_with_onnxruntime(
    check_node: Any, name: str, inputs: list[Any], consts: list[Any], outputs: int, attributes: dict[str, Any]
) -> None:
    check_node(name, inputs, consts, opset=17, domain=MS, outputs=outputs, rtol=1e-3, atol=1e-4, **attributes)


PRODUCTS: list[tuple[str, list[Any], list[Any], dict[str, Any]]] = [
    (
        "MatMulIntegerToFloat",
        [bytes_(3, 4), bytes_(4, 5, dtype=np.int8)],
        [SCALE, SCALE, ZERO, np.int8(3), floats(5)],
        {},
    ),
    ("DynamicQuantizeMatMul", [floats(3, 4)], [bytes_(4, 5, dtype=np.int8), SCALE, np.int8(3), floats(5)], {}),
    (
        "QGemm",
        [bytes_(3, 4)],
        [
            SCALE,
            ZERO,
            bytes_(5, 4, dtype=np.int8),
            SCALE,
            np.int8(0),
            np.arange(5, dtype=np.int32),
            np.float32(0.2),
            ZERO,
        ],
        {"transB": 1},
    ),
    (
        "QAttention",
        [bytes_(2, 5, 8)],
        [bytes_(8, 24, dtype=np.int8), floats(24), SCALE, SCALE, None, ZERO, np.int8(3)],
        {"num_heads": 2},
    ),
    (
        "QAttention",
        [bytes_(2, 5, 8)],
        [bytes_(8, 24, dtype=np.int8), floats(24), SCALE, SCALE, np.int32([3, 5]), ZERO, np.int8(0)],
        {"num_heads": 2, "unidirectional": 1},
    ),
]


@pytest.mark.parametrize(
    ("name", "inputs", "consts", "attributes"), PRODUCTS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_product_of_bytes(
    check_node: Any, name: str, inputs: list[Any], consts: list[Any], attributes: dict[str, Any]
) -> None:
    check_node(name, inputs, consts, opset=17, domain=MS, of_bytes=True, rtol=1e-3, atol=1e-4, **attributes)


def test_embeddings_agree_with_onnxruntime(check_node: Any) -> None:
    ids, segments = RNG.integers(0, 9, (2, 4)).astype(np.int32), RNG.integers(0, 2, (2, 4)).astype(np.int32)
    mask = np.int32([[1, 1, 1, 0], [1, 1, 1, 1]])
    tables = [floats(9, 8), floats(6, 8), floats(2, 8), floats(8), floats(8)]
    check_node(
        "EmbedLayerNormalization", [ids, segments], [*tables, mask], opset=17, domain=MS, outputs=2, epsilon=1e-6
    )


@pytest.mark.parametrize("by_unit", [False, True], ids=["a scale each direction", "a scale each unit"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(("direction", "batch"), [("forward", 1), ("forward", 3), ("reverse", 1), ("bidirectional", 1)])
def test_lstm_with_integer_weights(
    make_model: Any, run_model: Any, direction: str, batch: int, dtype: Any, by_unit: bool
) -> None:
    from onnx import helper

    steps, width, hidden, ways = 4, 5, 21, 1 + (direction == "bidirectional")
    x = floats(steps, batch, width)
    shape = (ways, 4 * hidden) if by_unit else (ways,)
    scales = [RNG.uniform(0.005, 0.01, shape).astype(np.float32) for _ in range(2)]
    middle = 128 if dtype == np.uint8 else 0
    # onnxruntime takes zero points that differ by direction, not by unit.
    zero = (np.full(shape, middle) if by_unit else middle + (middle > 0) * np.arange(ways)).astype(dtype)
    weights = {
        "w": bytes_(ways, width, 4 * hidden, dtype=dtype), "r": bytes_(ways, hidden, 4 * hidden, dtype=dtype),
        "b": floats(ways, 8 * hidden), "ws": scales[0], "wz": zero, "rs": scales[1], "rz": zero,
    }  # fmt: skip
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    attributes = {"hidden_size": hidden, "direction": direction}
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "h", "c"], domain=MS, **attributes)
    model = make_model([node], {"x": x}, ["y", "h", "c"], 17, weights, {MS: 1})
    got = run_model(model, {"x": x})
    for wanted in product_outputs(model, {"x": x}):
        for ours, theirs in zip(got, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_layers_of_lstm_with_integer_weights(make_model: Any, run_model: Any) -> None:
    from onnx import helper

    steps, batch, hidden, layers = 6, 3, 32, 3
    x, weights, nodes = floats(steps, batch, hidden), {"axis": np.int64([1])}, []
    for i in range(layers):
        scale = np.float32([2 / 127 / hidden**0.5])
        weights |= {f"{k}{i}": bytes_(1, hidden, 4 * hidden, dtype=np.int8) for k in "wr"}
        weights |= {f"b{i}": floats(1, 8 * hidden), f"ws{i}": scale, f"rs{i}": scale}
        weights |= {f"wz{i}": np.int8([0]), f"rz{i}": np.int8([0])}
        names = [f"x{i}" if i else "x", f"w{i}", f"r{i}", f"b{i}", "", "", "", ""]
        names += [f"ws{i}", f"wz{i}", f"rs{i}", f"rz{i}"]
        nodes.append(helper.make_node("DynamicQuantizeLSTM", names, [f"y{i}"], domain=MS, hidden_size=hidden))
        nodes.append(helper.make_node("Squeeze", [f"y{i}", "axis"], [f"x{i + 1}"]))
    model = make_model(nodes, {"x": x}, [f"x{layers}"], 17, weights, {MS: 1})
    (got,) = run_model(model, {"x": x})
    for (wanted,) in product_outputs(model, {"x": x}):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
def test_grouped_heads_over_a_past(make_model: Any, run_model: Any, run_reference: Any, past: int, rotary: int) -> None:
    from onnx import helper

    batch, steps, heads, shared, depth = 1, 1 if past else 4, 4, 2, 16
    feeds = {
        "q": floats(batch, steps, heads * depth),
        "k": floats(batch, steps, shared * depth),
        "v": floats(batch, steps, shared * depth),
        "pk": floats(batch, shared, past, depth),
        "pv": floats(batch, shared, past, depth),
    }
    total = past + steps
    consts = {
        "lengths": np.full(batch, total - 1, np.int32),
        "total": np.int32(total),
        "cos": floats(16, depth // 2),
        "sin": floats(16, depth // 2),
    }
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "pk", "pv", "lengths", "total", "cos", "sin"],
        ["y", "nk", "nv"],
        domain=MS,
        num_heads=heads,
        kv_num_heads=shared,
        do_rotary=rotary,
    )
    model = make_model([node], feeds, ["y", "nk", "nv"], 17, consts, {MS: 1})
    for ours, theirs in zip(run_model(model, feeds), run_reference(model, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_packed_keys_and_values(run_model: Any, make_model: Any) -> None:
    """onnxruntime has them on GPUs only; here they are the same as keys and values of their own."""
    from onnx import helper

    feeds = {"q": floats(2, 5, 8), "kv": floats(2, 6, 2, 2, 4)}
    node = helper.make_node("MultiHeadAttention", ["q", "kv"], ["y"], domain=MS, num_heads=2)
    (packed,) = run_model(make_model([node], feeds, ["y"], 17, {}, {MS: 1}), feeds)
    key, value = (feeds["kv"][:, :, :, i].reshape(2, 6, 8) for i in range(2))
    apart = {"q": feeds["q"], "k": key, "v": value}
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain=MS, num_heads=2)
    np.testing.assert_allclose(
        packed, run_model(make_model([node], apart, ["y"], 17, {}, {MS: 1}), apart)[0], rtol=1e-5
    )
