"""Operators in symbols that MXNet itself writes, against MXNet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.running import run
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.mxnet import from_mxnet

mx = pytest.importorskip("mxnet", reason="MXNet is not installed")
S = mx.sym
rng = np.random.default_rng(6)
IMAGE = (2, 4, 8, 10)
WINDOW = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{
        name: (lambda x, name=name: getattr(S, name)(x))
        for name in (
            "relu",
            "sigmoid",
            "tanh",
            "softsign",
            "exp",
            "abs",
            "sign",
            "floor",
            "ceil",
            "rint",
            "round",
            "erf",
            "square",
            "sin",
            "cos",
            "arctan",
            "cbrt",
            "negative",
            "flatten",
            "softmax",
            "log_softmax",
            "hard_sigmoid",
            "argmax_channel",
            "logical_not",
            "trunc",
        )
    },
    "log": lambda x: S.log(x + 3),
    "sqrt": lambda x: S.sqrt(x + 3) + S.rsqrt(x + 3) + S.reciprocal(x + 3),
    "softrelu": lambda x: S.Activation(x, act_type="softrelu"),
    "leaky": lambda x: S.LeakyReLU(x, act_type="leaky", slope=0.2),
    "elu": lambda x: S.LeakyReLU(x, act_type="elu", slope=0.7),
    "selu": lambda x: S.LeakyReLU(x, act_type="selu"),
    "gelu": lambda x: S.LeakyReLU(x, act_type="gelu"),
    "prelu": lambda x: S.LeakyReLU(x, act_type="prelu"),
    "numbers": lambda x: (x * 2 + 1 - 0.5) / 4 + (3 - x) + 2 / (x + 4) + (x + 3) ** 1.5 + (x + 5) % 2,
    "compare": lambda x: (x > 0.5) + (x <= 1) * 2 + (x == x) + S.broadcast_lesser(x, -x) + S.maximum(x, 0.1),
    "broadcast": lambda x: S.broadcast_add(x, S.sum(x, axis=1, keepdims=True)) * S.broadcast_maximum(x, -x),
    "where": lambda x: S.where(x > 0, x, -x),
    "clip": lambda x: S.clip(x, -0.5, 1.0),
    "smooth_l1": lambda x: S.smooth_l1(x, scalar=2.0),
    "add_n": lambda x: S.add_n(x, x, x),
    "cast": lambda x: S.cast(S.cast(x * 5, dtype="int32"), dtype="float32"),
    "temperature": lambda x: S.softmax(x, axis=1, temperature=2.0),
    "softmax output": lambda x: S.SoftmaxOutput(S.flatten(x), name="softmax"),
    "sum": lambda x: S.sum(x, axis=(1, 2)),
    "excluded": lambda x: S.mean(x, axis=1, exclude=True),
    "max": lambda x: S.max(x, axis=2, keepdims=True),
    "prod": lambda x: S.prod(x, axis=3),
    "norm": lambda x: S.norm(x, axis=1),
    "argmax": lambda x: S.argmax(x, axis=2),
    "topk": lambda x: S.topk(x, k=3, axis=3, ret_typ="value"),
    "sort": lambda x: S.sort(x, axis=3, is_ascend=False),
    "reshape": lambda x: S.reshape(x, shape=(0, -1, 5)),
    "reshape codes": lambda x: S.reshape(x, shape=(-3, -4, 2, -1, 0)),
    "transpose": lambda x: S.transpose(x, axes=(0, 2, 3, 1)),
    "swap": lambda x: S.SwapAxis(x, dim1=1, dim2=3),
    "expand": lambda x: S.squeeze(S.expand_dims(x, axis=2), axis=2) * 2,
    "concat": lambda x: S.concat(x, x * 2, dim=1),
    "stack": lambda x: S.stack(x, x + 1, axis=1),
    "split": lambda x: S.split(x, num_outputs=2, axis=1)[1] * 1,
    "split squeezed": lambda x: S.split(x, num_outputs=4, axis=1, squeeze_axis=True)[2] + 0,
    "slice": lambda x: S.slice(x, begin=(None, 1, 0, -1), end=(None, 3, 8, None), step=(1, 1, 2, -1)),
    "slice_axis": lambda x: S.slice_axis(x, axis=3, begin=2, end=-1),
    "slice_like": lambda x: S.slice_like(x, S.slice_axis(x, axis=2, begin=0, end=5)),
    "crop": lambda x: S.Crop(x, h_w=(4, 6), center_crop=True),
    "tile": lambda x: S.tile(x, reps=(1, 2, 1, 1)),
    "repeat": lambda x: S.repeat(x, repeats=2, axis=2),
    "flip": lambda x: S.flip(x, axis=3),
    "pad": lambda x: S.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 0, 3), constant_value=2),
    "reflect": lambda x: S.pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 0, 3)),
    "edge": lambda x: S.pad(x, mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 0, 3)),
    "broadcast_to": lambda x: S.broadcast_to(S.sum(x, axis=1, keepdims=True), shape=(0, 3, 0, 0)),
    "take": lambda x: S.take(x, S.argmax(S.mean(x, axis=(1, 2)), axis=1), axis=1),
    "pick": lambda x: S.pick(x, S.argmax(x, axis=3), axis=3),
    "one_hot": lambda x: S.one_hot(S.argmax(x, axis=1), depth=4),
    "batch_dot": lambda x: S.batch_dot(
        S.reshape(x, shape=(-3, 0, 0)), S.reshape(x, shape=(-3, 0, 0)), transpose_b=True
    ),
    "dot": lambda x: S.dot(S.flatten(x), S.flatten(x), transpose_b=True),
    "arange": lambda x: S.broadcast_add(x, S.arange(start=0, stop=10)),
    "max pool": lambda x: S.Pooling(x, pool_type="max", **WINDOW),
    "mean pool": lambda x: S.Pooling(x, pool_type="avg", **WINDOW),
    "mean of data": lambda x: S.Pooling(x, pool_type="avg", count_include_pad=False, **WINDOW),
    "sum pool": lambda x: S.Pooling(x, pool_type="sum", **WINDOW),
    "full": lambda x: S.Pooling(x, pool_type="max", pooling_convention="full", kernel=(3, 3), stride=(2, 2)),
    "full mean": lambda x: S.Pooling(x, pool_type="avg", pooling_convention="full", kernel=(3, 3), stride=(2, 2)),
    "global": lambda x: S.Pooling(x, pool_type="avg", global_pool=True, kernel=(1, 1)),
    "lrn": lambda x: S.LRN(x, nsize=3, alpha=0.5),
    "l2": lambda x: S.L2Normalization(x, mode="channel"),
    "upsampling": lambda x: S.UpSampling(x, scale=2, sample_type="nearest"),
    "bilinear": lambda x: S.contrib.BilinearResize2D(x, height=15, width=19),
    "adaptive": lambda x: S.contrib.AdaptiveAvgPooling2D(x, output_size=(3, 4)),
    "depth_to_space": lambda x: S.space_to_depth(S.depth_to_space(x, block_size=2), block_size=2),
    "convolution": lambda x: S.Convolution(x, num_filter=6, **WINDOW),
    "groups": lambda x: S.Convolution(x, num_filter=8, num_group=4, kernel=(3, 3), dilate=(2, 2), no_bias=True),
    "deconvolution": lambda x: S.Deconvolution(x, num_filter=6, kernel=(4, 4), stride=(2, 2), pad=(1, 1)),
    "adjusted": lambda x: S.Deconvolution(x, num_filter=6, adj=(1, 1), no_bias=False, **WINDOW),
    "connected": lambda x: S.FullyConnected(x, num_hidden=5),
    "connected last": lambda x: S.FullyConnected(x, num_hidden=5, flatten=False),
    "batch norm": lambda x: S.BatchNorm(x, fix_gamma=False, eps=1e-4),
    "fixed gamma": lambda x: S.BatchNorm(x),
    "layer norm": lambda x: S.LayerNorm(x),
    "instance norm": lambda x: S.InstanceNorm(x),
    "embedding": lambda x: S.Embedding(S.argmax(x, axis=1), input_dim=5, output_dim=3),
}
SEQUENCE = (6, 2, 5)
RECURRENT: dict[str, Callable[[Any], Any]] = {
    f"{mode} {layers} {both}": (
        lambda x, mode=mode, layers=layers, both=both: S.RNN(
            x, state_size=7, num_layers=layers, mode=mode, bidirectional=both, name="rnn", state_outputs=False
        )
    )
    for mode in ("lstm", "gru", "rnn_tanh")
    for layers in (1, 2)
    for both in (False, True)
}


def check(function: Callable[[Any], Any], folder: Path, shape: tuple[int, ...]) -> None:
    symbol = function(S.var("data"))
    executor = symbol.simple_bind(mx.cpu(), data=shape, grad_req="null")
    args, aux = {}, {}
    for found, arrays in ((args, executor.arg_dict), (aux, executor.aux_dict)):
        for name, array in arrays.items():
            if "label" in name:
                continue
            array[:] = rng.uniform(0.2, 1, array.shape).astype("f")
            found[name] = array
    x = rng.uniform(-2, 2, shape).astype("f")
    executor.arg_dict["data"][:] = x
    wanted = executor.forward()[0].asnumpy()
    symbol.save(str(folder / "net-symbol.json"))
    kept = {f"arg:{name}": value for name, value in args.items() if name != "data"}
    mx.nd.save(str(folder / "net-0000.params"), {**kept, **{f"aux:{name}": value for name, value in aux.items()}})
    path = folder / "net-symbol.json"
    assert frontend_of(path).name == "mxnet"
    mod, specs = from_mxnet(path, input_shapes={"data": shape})
    assert [spec.name for spec in specs] == ["data"]
    found = run(mod, {"data": x})[0]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=5e-4, atol=5e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators_agree_with_mxnet(name: str, tmp_path: Path) -> None:
    check(FUNCTIONS[name], tmp_path, IMAGE)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_agree_with_mxnet(name: str, tmp_path: Path) -> None:
    check(RECURRENT[name], tmp_path, SEQUENCE)


def test_a_network_of_gluon(tmp_path: Path) -> None:
    net = mx.gluon.model_zoo.vision.mobilenet_v2_0_25(classes=10)
    net.initialize()
    net.hybridize()
    x = rng.uniform(-1, 1, (1, 3, 64, 64)).astype("f")
    wanted = net(mx.nd.array(x)).asnumpy()
    net.export(str(tmp_path / "net"))
    mod, _ = from_mxnet(tmp_path / "net-symbol.json", input_shapes={"data": x.shape})
    np.testing.assert_allclose(run(mod, {"data": x})[0], wanted, rtol=1e-3, atol=1e-5)
