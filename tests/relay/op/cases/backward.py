"""Cases of the operators that gradients need."""

from __future__ import annotations

import numpy as np

from tests.relay.op.cases.values import f, i
from tilewright.relay import op
from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import Attrs, Call, const
from tilewright.relay.ir.registry import get
from tilewright.topi.reference.backward import max_pool2d_indices
from tilewright.topi.reference.pooling import pool2d

WINDOWS = (
    {"pool_size": 2, "strides": 2, "padding": 0},
    {"pool_size": 3, "strides": 2, "padding": 1},
    {"pool_size": (3, 2), "strides": 1, "padding": (1, 0), "dilation": (2, 1)},
    {"pool_size": 3, "strides": 3, "padding": 0, "ceil_mode": True},
)
POOLED = ((3, 4), (4, 5), (5, 8), (3, 3))

#: Data whose maxima the indices of the cases are of.
DATA = const(np.random.default_rng(3).uniform(-2, 2, (2, 3, 7, 9)).astype("float32"))


def indices(window):
    """The indices of the maxima of windows over `DATA`."""
    attrs = op.nn.max_pool2d(DATA, **window).attrs
    return op.nn.max_pool2d_indices(DATA, const(pool2d(DATA.data, "max", attrs, "NCHW")), **window)


def grad_at(window, size):
    """Gradients of `size` brought to the maxima of windows over `DATA`."""
    call = indices(window)
    where = const(max_pool2d_indices(*[arg.data for arg in call.args], call.attrs))
    plain = {name: value for name, value in window.items() if name != "ceil_mode"}
    return op.nn.max_pool2d_grad_at(f(2, 3, *size), where, (7, 9), **plain)


def contrib_weight(gradient, data, **attrs):
    """A call of the kernel that stands for `nn.conv2d_backward_weight` on processors."""
    own = get("nn.contrib_conv2d_backward_weight")
    return Call(own, [gradient, data], Attrs(complete(own.name, own.attributes, attrs)))


CASES = {
    "nn.attention_backward": [op.nn.attention_backward(*[f(1, 2, 5, 8)] * 4, f(1, 2, 1, 5), causal=True)],
    "nn.contrib_attention_backward": [
        op.nn.contrib_attention_backward(f(2, 3, 9, 8), f(2, 3, 9, 8), f(2, 3, 9, 8), f(2, 3, 9, 8), scale=0.3),
        op.nn.contrib_attention_backward(*[f(1, 2, 5, 8)] * 4, f(1, 2, 1, 5), causal=True),
    ],
    "nn.max_pool2d_indices": [indices(window) for window in WINDOWS],
    "nn.max_pool2d_grad_at": [
        grad_at(window, size) for window, size in zip(WINDOWS, POOLED) if "dilation" not in window
    ],
    "nn.contrib_conv2d_backward_weight": [
        contrib_weight(f(2, 5, 9, 11), f(2, 3, 9, 11), kernel_size=(3, 3), padding=(1,) * 4, images=1),
        contrib_weight(
            f(4, 6, 4, 9), f(4, 4, 9, 11), kernel_size=(3, 2), strides=(2, 1), dilation=(1, 2), groups=2, images=2
        ),
        contrib_weight(f(3, 6, 5, 6), f(3, 6, 9, 11), kernel_size=(3, 3), strides=(2, 2), padding=(1,) * 4, groups=6),
        contrib_weight(f(2, 8, 4, 8), f(2, 12, 4, 8), kernel_size=(1, 1), images=2),
        contrib_weight(f(2, 8, 4, 5), f(2, 12, 7, 9), kernel_size=(1, 1), strides=(2, 2)),
    ],
    "nn.max_pool2d_grad": [
        op.nn.max_pool2d_grad(f(2, 3, *size), f(2, 3, 7, 9), **window) for window, size in zip(WINDOWS, POOLED)
    ],
    "nn.avg_pool2d_grad": [
        op.nn.avg_pool2d_grad(f(2, 3, *size), f(2, 3, 7, 9), **window) for window, size in zip(WINDOWS, POOLED)
    ]
    + [op.nn.avg_pool2d_grad(f(1, 3, 4, 5), f(1, 3, 7, 9), 3, 2, 1, count_include_pad=True)],
    "nn.conv2d_backward_weight": [
        op.nn.conv2d_backward_weight(f(2, 5, 9, 11), f(2, 3, 9, 11), 3, padding=1),
        op.nn.conv2d_backward_weight(f(2, 6, 4, 9), f(2, 4, 9, 11), (3, 2), (2, 1), dilation=(1, 2), groups=2),
        op.nn.conv2d_backward_weight(f(3, 6, 5, 6), f(3, 6, 9, 11), 3, 2, 1, groups=6),
    ],
    "nn.dilate": [op.nn.dilate(f(3, 1, 5), (2, 1, 3)), op.nn.dilate(f(4, 3), (1, 2), 1.5)],
    "nn.cross_entropy": [op.nn.cross_entropy(f(5, 7, low=0.1, high=0.9), f(5, 7, low=0))],
    "nn.cross_entropy_with_logits": [op.nn.cross_entropy_with_logits(f(5, 7), f(5, 7))],
    "nn.nll_loss": [
        op.nn.nll_loss(f(6, 4), i(6, high=4), f(4, low=0.2)),
        op.nn.nll_loss(f(6, 4), i(6, high=4), f(4, low=0.2), "sum", ignore_index=2),
        op.nn.nll_loss(f(2, 4, 3, 5), i(2, 3, 5, high=4, dtype="int32"), f(4, low=0.2), "none", ignore_index=1),
        op.nn.nll_loss(f(2, 4, 3), i(2, 3, high=4), f(4, low=0.2), ignore_index=0),
    ],
    "scatter": [op.scatter(f(5, 7), i(3, 7, low=-5), f(3, 7)), op.scatter(f(4, 6), i(3, 2), f(3, 2), 1)],
    "scatter_add": [
        op.scatter_add(f(5, 7), i(9, 7), f(9, 7)),
        op.scatter_add(f(3, 19), i(3, 40, high=19), f(3, 40), 1),
    ],
    "scatter_elements": [
        op.scatter_elements(f(5, 7), i(9, 7), f(9, 7), 0, mode) for mode in ("update", "add", "mul", "min", "max")
    ],
    "scatter_nd": [
        *[op.scatter_nd(f(5, 6, 7), i(2, 9), f(9, 7), mode) for mode in ("update", "add", "mul", "min", "max")],
        op.scatter_nd(f(5), i(1, 2, 3, low=-5), f(2, 3), "add"),
    ],
}
