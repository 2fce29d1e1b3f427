"""Gradients by `torch.compile` of what PyTorch has backward operators for, against eager mode; nothing falls back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")
nn = torch.nn.functional

CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "conv1d": (lambda x, w, b: nn.conv1d(x, w, b, stride=2, padding=1), [(2, 3, 9), (4, 3, 3), (4,)]),
    "conv2d": (lambda x, w, b: nn.conv2d(x, w, b, padding=(1, 0), dilation=2), [(2, 3, 9, 8), (4, 3, 3, 2), (4,)]),
    "grouped conv2d": (lambda x, w: nn.conv2d(x, w, stride=2, groups=2), [(2, 4, 9, 8), (6, 2, 3, 2)]),
    "conv3d": (lambda x, w, b: nn.conv3d(x, w, b, stride=(1, 2, 1)), [(1, 2, 4, 5, 6), (3, 2, 2, 2, 3), (3,)]),
    "conv_transpose1d": (lambda x, w: nn.conv_transpose1d(x, w, stride=2), [(2, 3, 5), (3, 4, 3)]),
    "conv_transpose2d": (
        lambda x, w, b: nn.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        [(2, 3, 5, 4), (3, 4, 3, 3), (4,)],
    ),
    "conv_transpose3d": (lambda x, w: nn.conv_transpose3d(x, w, stride=2), [(1, 2, 3, 3, 2), (2, 3, 2, 2, 2)]),
    "avg_pool1d": (lambda x: nn.avg_pool1d(x, 3, 2), [(2, 3, 9)]),
    "avg_pool2d": (lambda x: nn.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False), [(2, 3, 9, 8)]),
    "avg_pool3d": (lambda x: nn.avg_pool3d(x, 2), [(1, 2, 4, 6, 4)]),
    "adaptive_avg_pool2d": (lambda x: nn.adaptive_avg_pool2d(x, (3, 2)), [(2, 3, 7, 5)]),
    "adaptive_avg_pool3d": (lambda x: nn.adaptive_avg_pool3d(x, 2), [(1, 2, 5, 4, 3)]),
    "adaptive_max_pool2d": (lambda x: nn.adaptive_max_pool2d(x, (3, 2)), [(2, 3, 7, 5)]),
    "max_pool1d": (lambda x: nn.max_pool1d(x, 3, 2), [(2, 3, 9)]),
    "max_pool2d": (lambda x: nn.max_pool2d(x, 3, 2, padding=1), [(2, 3, 9, 8)]),
    "max_pool2d of pairs": (lambda x: nn.max_pool2d(x, 2), [(2, 3, 9, 8)]),
    "max_pool2d rounded up": (lambda x: nn.max_pool2d(x, 3, 2, ceil_mode=True), [(2, 3, 8, 10)]),
    "max_pool2d with dilation": (lambda x: nn.max_pool2d(x, 2, 1, dilation=2), [(2, 3, 8, 10)]),
    "max_pool2d of a sample": (lambda x: nn.max_pool2d(x, (2, 3), (1, 2), (1, 0)), [(3, 8, 10)]),
    "batch_norm of images": (
        lambda x, w, b: nn.batch_norm(x, torch.zeros(3), torch.ones(3), w, b, training=True),
        [(4, 3, 5, 6), (3,), (3,)],
    ),
    "batch_norm of rows": (lambda x: nn.batch_norm(x, None, None, training=True), [(8, 3)]),
    "batch_norm by what was kept": (
        lambda x, w: nn.batch_norm(x, torch.full((3,), 0.5), torch.full((3,), 2.0), w),
        [(4, 3, 5, 6), (3,)],
    ),
    "max_pool3d": (lambda x: nn.max_pool3d(x, 2, ceil_mode=True), [(1, 2, 4, 5, 4)]),
    "bilinear": (lambda x: nn.interpolate(x, size=(7, 9), mode="bilinear"), [(2, 3, 5, 4)]),
    "bicubic": (lambda x: nn.interpolate(x, size=(7, 9), mode="bicubic"), [(2, 3, 5, 4)]),
    "smoothed": (lambda x: nn.interpolate(x, size=(3, 2), mode="bilinear", antialias=True), [(2, 3, 5, 4)]),
    "nearest": (lambda x: nn.interpolate(x, scale_factor=2), [(2, 3, 5, 4)]),
    "trilinear": (lambda x: nn.interpolate(x, size=(3, 5, 4), mode="trilinear"), [(1, 2, 2, 3, 3)]),
    "replication_pad": (lambda x: nn.pad(x, (1, 2, 0, 1), mode="replicate"), [(2, 3, 5, 4)]),
    "reflection_pad": (lambda x: nn.pad(x, (1, 2, 0, 1), mode="reflect"), [(2, 3, 5, 4)]),
    "hardshrink": (lambda x: nn.hardshrink(x) + nn.softshrink(x), [(5, 6)]),
    "grid_sample": (lambda x, g: nn.grid_sample(x, g, align_corners=False), [(2, 3, 5, 4), (2, 3, 3, 2)]),
    "attention": (
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(1, 2, 24, 8), (1, 2, 24, 8), (1, 2, 24, 8)],
    ),
    "cdist": (torch.cdist, [(2, 4, 3), (2, 5, 3)]),
    "cdist of others": (lambda x, y: torch.cdist(x, y, p=3.5) + torch.cdist(x, y, p=1), [(4, 3), (5, 3)]),
    "pdist": (nn.pdist, [(5, 3)]),
    "batch_norm": (lambda x, w: nn.batch_norm(x, None, None, weight=w, training=True), [(4, 3, 5), (3,)]),
    "layer_norm": (lambda x, w, b: nn.layer_norm(x, (6,), w, b), [(4, 6), (6,), (6,)]),
    "group_norm": (lambda x, w: nn.group_norm(x, 2, w), [(3, 4, 5), (4,)]),
    "embedding": (lambda w: nn.embedding(torch.tensor([[0, 3, 3], [1, 0, 4]]), w), [(5, 4)]),
    "cross_entropy": (lambda x: nn.cross_entropy(x, torch.tensor([0, 2, 1, 2])), [(4, 3)]),
    "glu": (lambda x: nn.glu(x) * nn.gelu(x[:, :3]), [(4, 6)]),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), [(2, 3, 4), (2, 5, 4)]),
    "cumulative": (lambda x: torch.cumsum(x, 1) + torch.cumprod(x, 1), [(3, 4)]),
    "sorted": (lambda x: torch.sort(x, 1).values[:, :2] + torch.topk(x, 2).values, [(3, 5)]),
    "std": (lambda x: torch.std(x, 1) + torch.norm(x, dim=1) + torch.logsumexp(x, 1), [(3, 5)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree_with_eager_mode(name: str) -> None:
    function, shapes = CASES[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    values = [torch.randn(shape, requires_grad=True) for shape in shapes]
    wanted = function(*values)
    weight = torch.randn(wanted.shape)
    gradients = torch.autograd.grad((wanted * weight).sum(), values)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = torch.compile(function, backend=tilewright)(*values)
        ours = torch.autograd.grad((found * weight).sum(), values)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    for one, other in zip(ours, gradients):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
