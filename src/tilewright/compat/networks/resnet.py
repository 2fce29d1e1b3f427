"""Residual networks (He et al. 2016), with the normalization before the convolutions."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import batch_norm_infer, classify, conv2d, image, layouts, network
from tilewright.compat.networks.workload import create_workload
from tilewright.errors import InputError

#: Depth -> units in each of the four stages of networks for images of 224 x 224.
UNITS = {
    18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3),
}  # fmt: skip


def _unit(
    data: relay.Expr, channels: int, stride: int, same: bool, name: str, bottleneck: bool, layout: str
) -> relay.Expr:
    """One residual unit: two 3x3 convolutions, or 1x1, 3x3, 1x1 if it is a bottleneck."""
    norm = {"epsilon": 2e-5, "axis": layout.index("C")}
    start = relay.nn.relu(batch_norm_infer(data, **norm, name=f"{name}_bn1"))
    windows = [(channels // 4, 1), (channels // 4, 3), (channels, 1)] if bottleneck else [(channels, 3), (channels, 3)]
    strided = 1 if bottleneck else 0
    value: relay.Expr = start
    for index, (width, size) in enumerate(windows):
        if index:
            value = relay.nn.relu(batch_norm_infer(value, **norm, name=f"{name}_bn{index + 1}"))
        value = conv2d(
            value, channels=width, kernel_size=(size, size), strides=stride if index == strided else 1,
            padding=size // 2, name=f"{name}_conv{index + 1}", **layouts(layout),
        )  # fmt: skip
    if same:
        return relay.add(value, data)
    shortcut = conv2d(
        start, channels=channels, kernel_size=(1, 1), strides=stride, name=f"{name}_sc", **layouts(layout)
    )
    return relay.add(value, shortcut)


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: Any = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> relay.Function:
    """A network of `num_layers` (one of `UNITS`) layers. Raises `InputError` for another depth."""
    if num_layers not in UNITS:
        raise InputError(f"there is no resnet of {num_layers} layers; there are: {', '.join(map(str, UNITS))}")
    bottleneck = num_layers >= 50
    widths = (256, 512, 1024, 2048) if bottleneck else (64, 128, 256, 512)
    kernel, norm = layouts(layout), {"epsilon": 2e-5, "axis": layout.index("C")}
    body = batch_norm_infer(image(batch_size, image_shape, dtype), **norm, name="bn_data")
    if image_shape[layout.index("H") - 1] <= 32:
        body = conv2d(body, channels=64, kernel_size=(3, 3), padding=1, name="conv0", **kernel)
    else:
        body = conv2d(body, channels=64, kernel_size=(7, 7), strides=2, padding=3, name="conv0", **kernel)
        body = relay.nn.relu(batch_norm_infer(body, **norm, name="bn0"))
        body = relay.nn.max_pool2d(body, (3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, (units, width) in enumerate(zip(UNITS[num_layers], widths, strict=True)):
        for unit in range(units):
            stride = 2 if unit == 0 and stage > 0 else 1
            body = _unit(body, width, stride, unit > 0, f"stage{stage + 1}_unit{unit + 1}", bottleneck, layout)
    body = relay.nn.relu(batch_norm_infer(body, **norm, name="bn1"))
    return network(classify(body, num_classes, "fc1", layout))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: Any = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **_: Any,
) -> Any:
    """The network as a module, and random parameters; `image_shape` is in the `layout`, NCHW or NHWC."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, dtype, layout))
