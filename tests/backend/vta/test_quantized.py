"""Models quantized elsewhere, with scales and zero points of their own, on VTA: the CPU's results, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.backend.vta.offload import programs
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.op import qnn
from tilewright.target import Target

TINY = "vta -log_block=3 -log_uop_buff_size=11 -log_inp_buff_size=12 -log_wgt_buff_size=13 -log_acc_buff_size=14"


class RandomNetwork:
    """Layers with random sizes, each between `quantize` and `dequantize`; or all of them float."""

    def __init__(self, seed: int, quantized: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.quantized = quantized
        self.dtype = str(self.rng.choice(["int8", "uint8"]))
        self.per_channel = bool(self.rng.integers(2))
        shape = (1, int(self.rng.integers(1, 7)), int(self.rng.integers(7, 13)), int(self.rng.integers(7, 13)))
        self.input = relay.var("x", shape=shape, dtype="float32")
        self.value = self.known(self.input)

    def module(self, layers: int) -> IRModule:
        for _ in range(layers):
            self.add_layer()
        pooled = self.known(relay.nn.global_avg_pool2d(self.value))
        flat = relay.nn.batch_flatten(pooled)
        out = relay.nn.dense(flat, self.weights(5, self.shape()[1]))
        return infer_type(IRModule.from_expr(Function([self.input], self.known(out))))

    def shape(self) -> tuple[int, ...]:
        mod = infer_type(IRModule.from_expr(Function([self.input], self.value)))
        return tuple(int(n) for n in tensor_type_of(mod["main"].body).shape)

    def known(self, value: Expr) -> Expr:
        """The value as integers say it."""
        if not self.quantized:
            return value
        zero = int(self.rng.integers(-5, 6)) + (128 if self.dtype == "uint8" else 0)
        figures = relay.const(np.float32(self.rng.uniform(0.01, 0.05))), relay.const(np.int32(zero))
        return self.pair(value, *figures, -1, self.dtype)

    @staticmethod
    def pair(value: Expr, scale: Expr, zero: Expr, axis: int, dtype: str) -> Expr:
        integers = qnn.quantize(value, scale, zero, axis=axis, out_dtype=dtype)
        return qnn.dequantize(integers, scale, zero, axis=axis)

    def weights(self, *shape: int) -> Expr:
        values = self.rng.integers(-127, 128, shape).astype("int8")
        if not self.quantized:
            return relay.const((values * 0.004).astype("float32"))
        count = shape[0] if self.per_channel else 1
        scale = self.rng.uniform(0.002, 0.01, count).astype("float32")
        scale, zero = (scale, np.zeros(count, "int32")) if self.per_channel else (scale[0], np.int32(0))
        return qnn.dequantize(relay.const(values), relay.const(scale), relay.const(zero), axis=0)

    def convolution(self, value: Expr, channels: int, outputs: int, groups: int = 1, **how: object) -> Expr:
        kernel = [int(n) for n in self.rng.integers(1, 4, 2)]
        pads = [int(self.rng.integers(0, k)) for k in (*kernel, *kernel)]
        weight = self.weights(outputs, channels // groups, *kernel)
        return relay.nn.conv2d(value, weight, padding=tuple(pads), groups=groups, **how)  # type: ignore[arg-type]

    def add_layer(self) -> None:
        _, channels, height, width = self.shape()
        kind = self.rng.choice(
            ["conv", "conv", "stride", "depthwise", "residual", "pool", "relu", "transposed", "concat"]
        )
        more, value = int(self.rng.integers(1, 21)), self.value
        if kind == "stride" and min(height, width) > 5:
            made = self.convolution(value, channels, more, strides=(2, 1 + int(self.rng.integers(2))))
        elif kind == "depthwise":
            made = self.convolution(value, channels, channels, channels)
        elif kind == "residual":
            made = relay.add(self.known(relay.nn.conv2d(value, self.weights(channels, channels, 1, 1))), value)
        elif kind == "pool" and min(height, width) > 3:
            made = relay.nn.max_pool2d(value, (2, 2), (1, 1))
        elif kind == "relu":
            made = relay.nn.relu(value)
        elif kind == "transposed":
            made = relay.nn.conv2d_transpose(value, self.weights(channels, more, 2, 2), strides=(1, 1), channels=more)
        elif kind == "concat":
            made = relay.concatenate([value, self.known(relay.nn.relu(value))], axis=1)
        else:
            made = self.convolution(value, channels, more)
        self.value = self.known(made)


@pytest.mark.parametrize("target", ["vta", TINY], ids=["default", "tiny"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sample(3)
def test_random_networks_are_those_of_the_cpu(seed: int, target: str) -> None:
    mod = RandomNetwork(seed).module(layers=4)
    on_vta, on_cpu = tw.compile(mod, target=target, cache=False), tw.compile(mod, cache=False)
    for image in range(2):
        x = np.random.default_rng(image).standard_normal([int(n) for n in mod["main"].params[0].checked_type.shape])
        given = {"x": x.astype("float32")}
        np.testing.assert_array_equal(on_vta.run(given)[0], on_cpu.run(given)[0])


def test_sums_go_back_as_bytes_and_are_rescaled_by_the_host() -> None:
    network = RandomNetwork(0)
    network.value = network.known(network.convolution(network.value, network.shape()[1], 9))
    (_, compiled), *rest = programs(network.module(layers=0), Target("vta"), interpret)
    assert compiled.plan["outputs"][0]["planes"] in (2, 3) and len(rest) == 1  # the convolution, and the dense layer


def test_no_quantized_product_is_left_to_the_host() -> None:
    mod = RandomNetwork(1).module(layers=3)
    nodes = post_order(mod["main"].body)
    products = sum(isinstance(n, Call) and n.op.name in ("nn.conv2d", "nn.dense") for n in nodes)
    assert sum(len(compiled.plan["layers"]) for _, compiled in programs(mod, Target("vta"), interpret)) >= products


def test_a_transposed_convolution_is_a_program_of_its_own() -> None:
    x = relay.var("x", shape=(1, 4, 6, 6))
    rng = np.random.default_rng(0)
    weights = [relay.const((rng.standard_normal(s) * 0.1).astype("float32")) for s in ((4, 4, 3, 3), (4, 5, 2, 2))]
    up = relay.nn.conv2d_transpose(relay.nn.conv2d(x, weights[0]), weights[1], strides=(2, 2), channels=5)
    mod = IRModule.from_expr(Function([x], up))
    compiled = [c for _, c in programs(mod, Target("vta"), interpret)]
    assert [len(one.plan["layers"]) for one in compiled] == [1, 1]  # the host puts zeros between the pixels
    assert tw.compile(mod, target="vta", cache=False)(np.ones((1, 4, 6, 6), "float32")).shape == (1, 5, 8, 8)


def test_sizes_may_be_symbolic_beside_programs() -> None:
    """A value of any size is computed in the same plan; what the accelerator takes is of fixed size."""
    main = RandomNetwork(0).module(1)["main"]
    y = relay.var("y", shape=(te.size_var("n"), 4))
    mod = IRModule.from_expr(Function([*main.params, y], relay.Tuple([main.body, relay.tanh(y)])))
    on_vta, on_cpu = tw.compile(mod, target=TINY, cache=False), tw.compile(mod, cache=False)
    assert any(kernel.choice["template"] == "vta" for kernel in on_vta.manifest.kernels)
    rng = np.random.default_rng(1)
    for rows in (5, 2):
        inputs = {
            "x": rng.standard_normal(tensor_type_of(main.params[0]).concrete_shape).astype("float32"),
            "y": rng.standard_normal((rows, 4)).astype("float32"),
        }
        for found, expected in zip(on_vta.run(inputs), on_cpu.run(inputs), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
