"""Operators in programs that Paddle itself writes, of today's form and the older one, against Paddle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.running import run
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.paddle import from_paddle

paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
F = paddle.nn.functional
nn = paddle.nn
rng = np.random.default_rng(4)
IMAGE = (2, 4, 8, 10)


class Of(nn.Layer):
    """A function as a layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": F.sigmoid,
    "tanh": paddle.tanh,
    "exp": paddle.exp,
    "sqrt": lambda x: paddle.sqrt(x + 3),
    "rsqrt": lambda x: paddle.rsqrt(x + 3),
    "log": lambda x: paddle.log(x + 3),
    "floor": paddle.floor,
    "ceil": paddle.ceil,
    "round": paddle.round,
    "sign": paddle.sign,
    "erf": paddle.erf,
    "square": paddle.square,
    "reciprocal": lambda x: paddle.reciprocal(x + 3),
    "abs": paddle.abs,
    "sin": paddle.sin,
    "silu": F.silu,
    "swish": F.swish,
    "mish": F.mish,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "selu": F.selu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate=True),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "clip": lambda x: paddle.clip(x, -0.5, 1.0),
    "pow": lambda x: paddle.pow(x + 3, 1.7),
    "scale": lambda x: x * 2 + 1,
    "arithmetic": lambda x: (x - 1) * x / (x + 4) + paddle.maximum(x, -x) - paddle.minimum(x, x * 2),
    "integers": lambda x: (paddle.cast(x * 5, "int32") // 2 % 3).astype("float32"),
    "compare": lambda x: paddle.where(paddle.logical_and(x > 0, x < 1), x, -x),
    "softmax": lambda x: F.softmax(x, axis=1),
    "log_softmax": F.log_softmax,
    "reshape": lambda x: paddle.reshape(x, [0, -1, 5]),
    "transpose": lambda x: paddle.transpose(x, [0, 2, 3, 1]),
    "flatten": lambda x: paddle.flatten(x, 1, 2),
    "squeeze": lambda x: paddle.squeeze(paddle.unsqueeze(x, [1, 3]), 1),
    "concat": lambda x: paddle.concat([x, x * 2], axis=1),
    "stack": lambda x: paddle.stack([x, x + 1], axis=2),
    "split": lambda x: paddle.split(x, [1, 3], axis=1)[1],
    "split evenly": lambda x: paddle.split(x, 2, axis=3)[0] * 2,
    "chunk": lambda x: paddle.unbind(x, axis=1)[2],
    "slice": lambda x: x[:, 1:3, ::2, -3:],
    "index": lambda x: x[:, 2] + x[0, 1],
    "expand": lambda x: paddle.expand(x[:, :1], [2, 3, 8, 10]),
    "tile": lambda x: paddle.tile(x, [1, 2, 1, 1]),
    "gather": lambda x: paddle.gather(x, paddle.to_tensor([2, 0]), axis=1),
    "index_select": lambda x: paddle.index_select(x, paddle.to_tensor([3, 1]), axis=2),
    "one_hot": lambda x: F.one_hot(paddle.argmax(x, axis=1), 4),
    "sum": lambda x: paddle.sum(x, axis=[1, 2]),
    "mean": lambda x: paddle.mean(x, axis=-1, keepdim=True),
    "mean of all": paddle.mean,
    "max": lambda x: paddle.max(x, axis=2),
    "min": lambda x: paddle.min(x, axis=[2, 3]),
    "prod": lambda x: paddle.prod(x, axis=1),
    "norm": lambda x: paddle.norm(x, p=2, axis=1),
    "normalize": lambda x: F.normalize(x, axis=1),
    "logsumexp": lambda x: paddle.logsumexp(x, axis=1),
    "argmax": lambda x: paddle.argmax(x, axis=2).astype("float32"),
    "topk": lambda x: paddle.topk(x, 3, axis=3)[0],
    "sort": lambda x: paddle.sort(x, axis=3),
    "cumsum": lambda x: paddle.cumsum(x, axis=2),
    "tril": paddle.tril,
    "flip": lambda x: paddle.flip(x, axis=[1, 3]),
    "roll": lambda x: paddle.roll(x, 3, axis=2),
    "pad": lambda x: F.pad(x, [1, 2, 0, 3]),
    "pad all": lambda x: F.pad(x, [0, 0, 1, 0, 0, 2, 3, 1], value=2.0),
    "reflect": lambda x: F.pad(x, [1, 2, 0, 3], mode="reflect"),
    "replicate": lambda x: F.pad(x, [1, 2, 0, 3], mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "bilinear": lambda x: F.interpolate(x, size=[11, 13], mode="bilinear"),
    "corners": lambda x: F.interpolate(x, size=[15, 19], mode="bilinear", align_corners=True),
    "max pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "mean pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean with padding": lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, [3, 4]),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, [2, 5]),
    "matmul": lambda x: paddle.matmul(x, x, transpose_y=True),
    "dropout": lambda x: F.dropout(x, 0.3, training=False),
    "full": lambda x: x + paddle.full([10], 3.0) + paddle.arange(10, dtype="float32"),
}
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "conv": (lambda: nn.Conv2D(4, 6, 3, 2, 1), IMAGE),
    "groups": (lambda: nn.Conv2D(4, 8, 3, groups=4, dilation=2), IMAGE),
    "same": (lambda: nn.Conv2D(4, 6, 3, padding="SAME", stride=2), IMAGE),
    "last": (lambda: nn.Conv2D(10, 6, 3, data_format="NHWC"), IMAGE),
    "conv3d": (lambda: nn.Conv3D(2, 3, 3), (1, 2, 5, 6, 7)),
    "conv1d": (lambda: nn.Conv1D(4, 6, 5, 2), (2, 4, 20)),
    "transposed": (lambda: nn.Conv2DTranspose(4, 6, 4, 2, 1), IMAGE),
    "output padding": (lambda: nn.Conv2DTranspose(4, 6, 3, 2, 1, output_padding=1), IMAGE),
    "linear": (lambda: nn.Linear(10, 5), IMAGE),
    "batch norm": (lambda: nn.BatchNorm2D(4), IMAGE),
    "layer norm": (lambda: nn.LayerNorm([8, 10]), IMAGE),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "instance norm": (lambda: nn.InstanceNorm2D(4), IMAGE),
    "prelu": (lambda: nn.PReLU(4), IMAGE),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32), (2, 6, 16)),
}


def check(layer: Any, folder: Path, x: np.ndarray) -> None:
    layer.eval()
    for parameter in layer.parameters():
        parameter.set_value(rng.uniform(0.2, 1, parameter.shape).astype("f"))
    wanted = layer(paddle.to_tensor(x))
    spec = [paddle.static.InputSpec(x.shape, "float32", "x")]
    paddle.jit.save(layer, str(folder / "net"), input_spec=spec)
    path = folder / "net.json"
    assert frontend_of(path).name == "paddle"
    mod, specs = from_paddle(path)
    (found,) = run(mod, {specs[0].name: x})
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_with_paddle(name: str, tmp_path: Path) -> None:
    check(Of(FUNCTIONS[name]), tmp_path, rng.uniform(-2, 2, IMAGE).astype("f"))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_paddle(name: str, tmp_path: Path) -> None:
    make, shape = LAYERS[name]
    check(make(), tmp_path, rng.uniform(-2, 2, shape).astype("f"))


def test_an_open_batch(tmp_path: Path) -> None:
    layers = nn.Sequential(
        nn.Conv2D(4, 6, 3), nn.BatchNorm2D(6), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3), nn.Softmax()
    )
    layers.eval()
    paddle.jit.save(
        layers, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 4, 8, 10], "float32", "x")]
    )
    exe = tw.compile(tmp_path / "net.json")
    for batch in (1, 3):
        x = rng.uniform(-2, 2, (batch, 4, 8, 10)).astype("f")
        np.testing.assert_allclose(np.asarray(exe(x)), layers(paddle.to_tensor(x)).numpy(), rtol=2e-4, atol=2e-5)


@pytest.fixture(scope="module")
def old_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join([str(root), str(root / "src"), *sys.path])
    environment = {**os.environ, "FLAGS_enable_pir_api": "0", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "tests.frontend.paddle.old_programs", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.parametrize("name", [*FUNCTIONS, *LAYERS])
def test_older_programs_agree_with_recorded_results(name: str, old_programs: Path) -> None:
    folder = old_programs / name.replace(" ", "_")
    if not (folder / "values.npz").is_file():
        pytest.skip(f"Paddle {paddle.__version__} does not write this as an older program")
    assert frontend_of(folder / "net.pdmodel").name == "paddle"
    values = np.load(folder / "values.npz")
    mod, specs = from_paddle(folder / "net.pdmodel")
    (found,) = run(mod, {specs[0].name: values["x"]})
    assert found.shape == values["wanted"].shape
    np.testing.assert_allclose(found, values["wanted"], rtol=2e-4, atol=2e-5)
