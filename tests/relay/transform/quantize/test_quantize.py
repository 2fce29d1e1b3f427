"""Post-training quantization: integers where they are asked for, and results near those of floats."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize import qconfig, quantize
from tilewright.relay.transform.quantize.thresholds import kl_threshold, percentile_threshold

RNG = np.random.default_rng(5)


def model() -> IRModule:
    """Three convolutions, of which the first is left in floats, and a dense layer."""
    x = Var("x", TensorType((1, 8, 12, 12), "float32"))
    y = x
    for _ in range(3):
        weight = (RNG.standard_normal((8, 8, 3, 3)) / 9).astype("float32")
        y = op.nn.relu(op.nn.conv2d(y, Constant(weight), padding=(1, 1)))
    flat = op.nn.batch_flatten(op.nn.global_avg_pool2d(y))
    return infer_type(
        IRModule.from_expr(Function([x], op.nn.dense(flat, Constant(RNG.standard_normal((4, 8)).astype("float32")))))
    )


def names(mod: IRModule) -> list[str]:
    """The operators of `main` that multiply, in order."""
    called = [getattr(call.op, "name", "") for call in calls(mod["main"].body)]
    return [name for name in called if "conv2d" in name or "dense" in name]


def near(mod: IRModule, quantized: IRModule, share: float) -> None:
    """The outputs differ by at most `share` of the largest."""
    data = RNG.standard_normal((1, 8, 12, 12)).astype("float32")
    exact, ours = (np.asarray(tw.compile(m, cache=False)(data)) for m in (mod, quantized))
    assert np.abs(exact - ours).max() <= share * np.abs(exact).max() and not np.array_equal(exact, ours)


def test_a_global_scale() -> None:
    mod = model()
    with qconfig(global_scale=4.0):
        made = quantize(mod)
    assert names(made) == ["nn.conv2d", "qnn.conv2d", "qnn.conv2d", "nn.dense"]
    near(mod, made, 0.05)
    with qconfig(global_scale=4.0, skip_conv_layers=None, skip_dense_layer=False, weight_scale="max"):
        made = quantize(mod)
    assert names(made) == ["qnn.conv2d"] * 3 + ["qnn.dense"]
    near(mod, made, 0.1)


def test_ranges_from_a_data_set() -> None:
    mod = model()
    images = [{"x": RNG.standard_normal((1, 8, 12, 12)).astype("float32")} for _ in range(3)]
    with qconfig(calibrate_mode="kl_divergence", weight_scale="max"):
        made = quantize(mod, dataset=images)
    near(mod, made, 0.08)
    scales = [
        float(call.args[1].data) for call in calls(made["main"].body) if getattr(call.op, "name", "") == "qnn.quantize"
    ]
    assert len(scales) == 2 and all(0 < scale < 4 / 128 for scale in scales)


def test_the_largest_value_but_for_outliers() -> None:
    values = np.linspace(-2, 1, 1_000_000)
    assert abs(percentile_threshold(values) - 2) < 1e-3
    values[:5] = 1e6
    assert abs(percentile_threshold(values) - 2) < 1e-3
    assert percentile_threshold(np.zeros(3)) == 1.0
    mod = model()
    images = [{"x": RNG.standard_normal((1, 8, 12, 12)).astype("float32")} for _ in range(3)]
    with qconfig(calibrate_mode="percentile", weight_scale="max"):
        near(mod, quantize(mod, dataset=images), 0.08)


def test_outliers_are_cut_off() -> None:
    values = RNG.standard_normal(200_000)
    assert 3 < kl_threshold(values) <= np.abs(values).max()
    assert kl_threshold(np.append(values, 400.0)) < 100
    assert kl_threshold(np.zeros(9)) == 1.0


def test_what_is_wrong_with_a_configuration_or_a_data_set() -> None:
    with pytest.raises(InputError, match="qconfig has no option 'nbits'; it has: calibrate_mode"):
        qconfig(nbits=8)
    with pytest.raises(InputError, match=r"calibrate_mode is one of global_scale, .*percentile; got 'largest'"):
        qconfig(calibrate_mode="largest")
    with qconfig(calibrate_mode="kl_divergence"):
        with pytest.raises(InputError, match="needs a dataset= of inputs by name"):
            quantize(model())
        with pytest.raises(InputError, match="the dataset is empty"):
            quantize(model(), dataset=[])
