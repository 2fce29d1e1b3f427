"""The third Inception network (Szegedy et al. 2015): convolutions of several windows beside each other."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import batch_norm_infer, classify, conv2d, image, network
from tilewright.compat.networks.workload import workload

#: One convolution: its channels, window, strides and padding.
Conv = tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]]


def _conv(data: relay.Expr, name: str, spec: Conv) -> relay.Expr:
    channels, window, strides, padding = spec
    value = conv2d(data, channels=channels, kernel_size=window, strides=strides, padding=padding, name=f"{name}_conv")
    return relay.nn.relu(batch_norm_infer(value, epsilon=2e-5, name=f"{name}_bn"))


def _same(channels: int, rows: int = 1, columns: int | None = None) -> Conv:
    """A convolution whose result is as large as its data."""
    across = rows if columns is None else columns
    return channels, (rows, across), (1, 1), (rows // 2, across // 2)


def _halving(channels: int) -> Conv:
    return channels, (3, 3), (2, 2), (0, 0)


def _chain(data: relay.Expr, name: str, *specs: Conv) -> relay.Expr:
    for position, spec in enumerate(specs):
        data = _conv(data, f"{name}_{position}", spec)
    return data


def _pooled(data: relay.Expr, kind: str, stride: int) -> relay.Expr:
    pad = 1 if stride == 1 else 0
    pool = relay.nn.avg_pool2d if kind == "avg" else relay.nn.max_pool2d
    return pool(data, (3, 3), strides=(stride, stride), padding=(pad, pad))


def _beside(*parts: relay.Expr) -> relay.Expr:
    return relay.concatenate(parts, axis=1)


def _narrow(data: relay.Expr, projection: int, name: str) -> relay.Expr:
    """Windows of 1, 5 and 3."""
    return _beside(
        _chain(data, f"{name}_a", _same(64)),
        _chain(data, f"{name}_b", _same(48), _same(64, 5)),
        _chain(data, f"{name}_c", _same(64), _same(96, 3), _same(96, 3)),
        _chain(_pooled(data, "avg", 1), f"{name}_p", _same(projection)),
    )


def _long(data: relay.Expr, width: int, name: str) -> relay.Expr:
    """Windows of 7, by rows and by columns."""
    return _beside(
        _chain(data, f"{name}_a", _same(192)),
        _chain(data, f"{name}_b", _same(width), _same(width, 1, 7), _same(192, 7, 1)),
        _chain(
            data,
            f"{name}_c",
            _same(width),
            _same(width, 7, 1),
            _same(width, 1, 7),
            _same(width, 7, 1),
            _same(192, 1, 7),
        ),
        _chain(_pooled(data, "avg", 1), f"{name}_p", _same(192)),
    )


def _wide(data: relay.Expr, pool: str, name: str) -> relay.Expr:
    """Windows of 3, by rows and by columns beside each other."""
    one = _chain(data, f"{name}_b", _same(384))
    two = _chain(data, f"{name}_c", _same(448), _same(384, 3))
    return _beside(
        _chain(data, f"{name}_a", _same(320)),
        *(_chain(part, f"{name}_{at}{rows}", _same(384, rows, 4 - rows)) for at, part in (("d", one), ("e", two))
          for rows in (1, 3)),
        _chain(_pooled(data, pool, 1), f"{name}_p", _same(192)),
    )  # fmt: skip


def get_net(batch_size: int, num_classes: int, image_shape: Any, dtype: str) -> relay.Function:
    """Probabilities [batch_size, num_classes]."""
    body: relay.Expr = image(batch_size, image_shape, dtype)
    plain = (32, (3, 3), (1, 1), (0, 0))
    body = _pooled(_chain(body, "stem", _halving(32), plain, _same(64, 3)), "max", 2)
    body = _pooled(_chain(body, "stem2", _same(80), (192, (3, 3), (1, 1), (0, 0))), "max", 2)
    for position, projection in enumerate((32, 64, 64)):
        body = _narrow(body, projection, f"narrow{position}")
    body = _beside(
        _chain(body, "half_a", _halving(384)),
        _chain(body, "half_b", _same(64), _same(96, 3), _halving(96)),
        _pooled(body, "max", 2),
    )
    for position, width in enumerate((128, 160, 160, 192)):
        body = _long(body, width, f"long{position}")
    body = _beside(
        _chain(body, "quarter_a", _same(192), _halving(320)),
        _chain(body, "quarter_b", _same(192), _same(192, 1, 7), _same(192, 7, 1), _halving(192)),
        _pooled(body, "max", 2),
    )
    body = _wide(_wide(body, "avg", "wide0"), "max", "wide1")
    return network(classify(body, num_classes, name="fc1"))


get_workload = workload(get_net, "inception_v3")
