"""Operations of ML programs made by coremltools from PyTorch modules, against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.running import run
from tilewright.frontend.coreml import from_coreml

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
ct = pytest.importorskip("coremltools", reason="coremltools is not installed")

rng = np.random.default_rng(9)
F = torch.nn.functional
nn = torch.nn


def data(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return rng.uniform(low, high, shape).astype("f")


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: Any) -> Any:
        return self.function(*values)


class First(torch.nn.Module):
    """The first result of a module."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


IMAGE = (2, 4, 8, 10)
UNARY = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "erf": torch.erf,
    "exp": torch.exp,
    "floor": torch.floor,
    "sin": torch.sin,
    "sign": torch.sign,
    "tanh": torch.tanh,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "square": torch.square,
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "round": torch.round,
    "softsign": F.softsign,
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "clamp": lambda x: torch.clamp(x, -0.5, 1.0),
    "threshold": lambda x: F.threshold(x, 0.1, 0.1),
    "log": lambda x: torch.log(x + 3),
    "sqrt": lambda x: torch.sqrt(x + 3),
    "rsqrt": lambda x: torch.rsqrt(x + 3),
    "reciprocal": lambda x: 1 / (x + 3),
    "pow": lambda x: (x + 3) ** 1.7,
    "mish": F.mish,
    "exp2": lambda x: 2**x,
}
SHAPES = {
    "transpose": lambda x: x.permute(0, 2, 3, 1),
    "reshape": lambda x: x.reshape(2, 8, 40),
    "flatten": lambda x: x.flatten(1),
    "slice": lambda x: x[:, 1:3, ::2, -3:],
    "index": lambda x: x[:, 2],
    "concat": lambda x: torch.cat([x, x * 2], 1),
    "stack": lambda x: torch.stack([x, x + 1], 2),
    "split": lambda x: torch.split(x, [1, 3], 1)[1],
    "chunk": lambda x: torch.chunk(x, 2, 3)[0],
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "flip": lambda x: x.flip([2]),
    "unsqueeze": lambda x: x[0].unsqueeze(0),
    "tile": lambda x: x.repeat(1, 2, 1, 1),
    "expand": lambda x: x[:, :1].expand(2, 3, 8, 10),
    "pad": lambda x: F.pad(x, (1, 2, 0, 3)),
    "reflect": lambda x: F.pad(x, (1, 2, 2, 3), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 2, 0, 3), mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "where": lambda x: torch.where(x > 0, x, x * 3),
    "take": lambda x: torch.index_select(x, 2, torch.tensor([3, 0, 5])),
    "tril": lambda x: torch.tril(x),
    "cumsum": lambda x: torch.cumsum(x, 2),
    "topk": lambda x: torch.topk(x, 3, 3).values,
    "sort": lambda x: torch.sort(x, 3).values,
    "argmax": lambda x: torch.argmax(x, 1).float(),
    "roll": lambda x: torch.roll(x, 2, 3),
    "gather": lambda x: torch.gather(x, 1, torch.zeros((2, 2, 8, 10), dtype=torch.int64) + 3),
    "upsample": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "bilinear": lambda x: F.interpolate(x, size=(16, 20), mode="bilinear", align_corners=False),
    "corners": lambda x: F.interpolate(x, size=(15, 19), mode="bilinear", align_corners=True),
    "sum": lambda x: x.sum((2, 3)),
    "mean": lambda x: x.mean(1, keepdim=True),
    "max": lambda x: x.amax((1, 2)),
    "min": lambda x: x.amin(3),
    "norm": lambda x: torch.norm(x, dim=1),
    "logsumexp": lambda x: torch.logsumexp(x, 3),
    "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "var": lambda x: x.var((2, 3)),
    "einsum": lambda x: torch.einsum("nchw,nchv->ncwv", x, x),
    "matmul": lambda x: x @ x.transpose(2, 3),
    "compare": lambda x: ((x > 0) & (x <= 1)).float() + (x != 0).float(),
    "floor_div": lambda x: torch.floor_divide(x, 0.7),
    "mod": lambda x: torch.remainder(x, 0.7),
    "minimum": lambda x: torch.minimum(x, -x),
}
LAYERS = {
    "conv": (lambda: nn.Conv2d(4, 6, 3, 2, 1), IMAGE),
    "groups": (lambda: nn.Conv2d(4, 8, 3, groups=4, dilation=2), IMAGE),
    "conv1d": (lambda: nn.Conv1d(4, 6, 5, 2), (2, 4, 20)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 3), (1, 2, 5, 6, 7)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1), IMAGE),
    "output padding": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), IMAGE),
    "same": (lambda: nn.Conv2d(4, 6, 3, padding="same"), IMAGE),
    "linear": (lambda: nn.Linear(10, 5), (2, 3, 10)),
    "batch norm": (lambda: nn.BatchNorm2d(4), IMAGE),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "layer norm": (lambda: nn.LayerNorm(10), IMAGE),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "prelu": (lambda: nn.PReLU(4), IMAGE),
    "max": (lambda: nn.MaxPool2d(3, 2, 1), IMAGE),
    "max ceil": (lambda: nn.MaxPool2d(3, 2, ceil_mode=True), IMAGE),
    "mean": (lambda: nn.AvgPool2d(3, 2, 1), IMAGE),
    "mean of data": (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d(1), IMAGE),
    "max1d": (lambda: nn.MaxPool1d(2), (2, 4, 9)),
    "lstm": (lambda: First(nn.LSTM(5, 7)), (6, 2, 5)),
    "batch first": (lambda: First(nn.LSTM(5, 7, batch_first=True)), (2, 6, 5)),
    "both ways": (lambda: First(nn.LSTM(5, 7, bidirectional=True)), (6, 2, 5)),
    "rnn": (lambda: First(nn.RNN(5, 7)), (6, 2, 5)),
    "attention": (lambda: Of(lambda x: F.scaled_dot_product_attention(x, x, x)), (2, 3, 8, 10)),
}


def _check(module: Any, folder: Path, *inputs: np.ndarray) -> None:
    module = module.eval()
    tensors = [torch.from_numpy(value) for value in inputs]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = module(*tensors)
        traced = torch.jit.trace(module, tuple(tensors))
        model = ct.convert(
            traced, inputs=[ct.TensorType(name=f"in{i}", shape=value.shape) for i, value in enumerate(inputs)],
            convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True,
            minimum_deployment_target=ct.target.iOS17,
        )  # fmt: skip
        model.save(str(folder / "model.mlpackage"))
    mod, specs = from_coreml(folder / "model.mlpackage")
    found = run(mod, {spec.name: value for spec, value in zip(specs, inputs)})
    assert found[0].shape == tuple(wanted.shape)
    np.testing.assert_allclose(found[0], wanted.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_operations_agree_with_pytorch(name: str, tmp_path: Path) -> None:
    _check(Of(UNARY[name]), tmp_path, data(3, 4, 5))


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_reductions(name: str, tmp_path: Path) -> None:
    _check(Of(SHAPES[name]), tmp_path, data(*IMAGE))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_pytorch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    module = make()
    with torch.no_grad():
        for value in module.parameters():
            value.normal_(0, 0.3)
    _check(module, tmp_path, data(*shape))
