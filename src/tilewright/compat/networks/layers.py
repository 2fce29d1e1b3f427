"""Layers that name their parameters after themselves: "conv1" makes the variable "conv1_weight"."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.errors import InputError


def conv2d(data: relay.Expr, weight: relay.Expr | None = None, **attrs: Any) -> relay.Expr:
    """A convolution with its own weight."""
    name = attrs.pop("name")
    return relay.nn.conv2d(data, weight or relay.var(f"{name}_weight"), **attrs)


def conv2d_transpose(data: relay.Expr, weight: relay.Expr | None = None, **attrs: Any) -> relay.Expr:
    """A transposed convolution with its own weight."""
    name = attrs.pop("name")
    return relay.nn.conv2d_transpose(data, weight or relay.var(f"{name}_weight"), **attrs)


def dense_add_bias(
    data: relay.Expr, weight: relay.Expr | None = None, bias: relay.Expr | None = None, units: int | None = None,
    **attrs: Any,
) -> relay.Expr:  # fmt: skip
    """A dense layer with its own weight and bias."""
    name = attrs.pop("name")
    product = relay.nn.dense(data, weight or relay.var(f"{name}_weight"), units, **attrs)
    return relay.nn.bias_add(product, bias or relay.var(f"{name}_bias"), axis=-1)


def batch_norm_infer(
    data: relay.Expr, gamma: Any = None, beta: Any = None, moving_mean: Any = None, moving_var: Any = None, **attrs: Any
) -> relay.Expr:
    """A batch norm with its own statistics; its normalized data alone."""
    name = attrs.pop("name")
    parts = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    gamma, beta, mean, var = [given or relay.var(f"{name}_{part}") for part, given in parts.items()]
    return relay.nn.batch_norm(data, gamma, beta, mean, var, **attrs)[0]


def conv_bn_relu(data: relay.Expr, name: str, layout: str = "NCHW", **attrs: Any) -> relay.Expr:
    """Convolution, batch norm, relu."""
    value = conv2d(data, name=f"{name}_conv", **layouts(layout, attrs.get("groups", 1) > 1), **attrs)
    return relay.nn.relu(batch_norm_infer(value, axis=layout.index("C"), name=f"{name}_bn"))


def layouts(layout: str, is_depthwise: bool = False) -> dict[str, Any]:
    """The attributes of a convolution of images in `layout`, "NCHW" or "NHWC". Raises `InputError` for another."""
    if layout not in ("NCHW", "NHWC"):
        raise InputError(f"networks are built in the layouts NCHW and NHWC, not in {layout}")
    kernel = "OIHW" if layout == "NCHW" else "HWOI" if is_depthwise else "HWIO"
    return {"data_layout": layout, "kernel_layout": kernel}


def classify(data: relay.Expr, classes: int, name: str = "fc", layout: str = "NCHW") -> relay.Expr:
    """Global average, a dense layer, softmax."""
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(data, layout=layout))
    return relay.nn.softmax(dense_add_bias(flat, units=classes, name=name))


def image(batch_size: int, image_shape: Any, dtype: str = "float32") -> relay.Var:
    """The variable "data" of a batch of images."""
    return relay.var("data", shape=(batch_size, *image_shape), dtype=dtype)


def network(body: relay.Expr) -> relay.Function:
    """A function whose parameters are all variables of `body`."""
    return relay.Function(relay.visitor.free_vars(body), body)
