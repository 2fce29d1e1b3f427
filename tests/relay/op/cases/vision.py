"""Cases of operators that samples images at fractional coordinates, resize, sum products, or take sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.relay.op.cases.values import RNG, f, i
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, const

nn, image, vision = op.nn, op.image, op.vision


def regions(count: int, images: int, extent: float) -> Constant:
    """Regions (image, x1, y1, x2, y2), some of them beyond the image."""
    owner = RNG.integers(0, images, (count, 1))
    corners = np.sort(RNG.uniform(-1, extent, (count, 2, 2)), 1).reshape(count, 4)
    return const(np.concatenate([owner, corners], 1).astype("float32"))


def compressed(rows: int, columns: int, block: Sequence[int] = ()) -> list[Constant]:
    """A random matrix as CSR, or as BSR with a `block` shape: (data, indices, indptr)."""
    hit = RNG.random((rows, columns)) < 0.4
    indices = np.nonzero(hit)[1].astype("int32")
    indptr = np.concatenate([[0], np.cumsum(hit.sum(1))]).astype("int32")
    return [f(len(indices), *block), const(indices), const(indptr)]


OFFSETS = {"low": -1.3, "high": 1.3}

CASES = {
    "image.affine_grid": [image.affine_grid(f(2, 2, 3), (4, 5))],
    "image.grid_sample": [
        image.grid_sample(f(2, 3, 6, 7), f(2, 2, 4, 5, **OFFSETS), method, padding_mode=mode, align_corners=align)
        for method, mode, align in (
            ("bilinear", "zeros", True),
            ("bilinear", "border", False),
            ("nearest", "zeros", False),
            ("bicubic", "reflection", True),
            ("bilinear", "reflection", False),
        )
    ],
    "image.crop_and_resize": [
        image.crop_and_resize(f(2, 3, 6, 7), f(4, 4, low=-0.2, high=1.2), i(4, high=2, dtype="int32"), (3, 4)),
        image.crop_and_resize(f(2, 3, 6, 7), f(4, 4, low=0, high=1), i(4, high=2), (1, 5), method="nearest_neighbor"),
    ],
    "image.dilation2d": [
        image.dilation2d(f(2, 3, 6, 7), f(3, 3, 2)),
        image.dilation2d(f(1, 2, 8, 9), f(2, 3, 3), 2, 1, (1, 2)),
    ],
    "vision.roi_align": [
        vision.roi_align(f(2, 3, 12, 12), regions(4, 2, 20), (3, 2), 0.5, 2),
        vision.roi_align(f(2, 3, 12, 12), regions(3, 2, 13), 2, 1.0),
        vision.roi_align(f(1, 3, 12, 12), regions(3, 1, 12), 2, 1.0, 3, mode="max"),
    ],
    "vision.roi_pool": [vision.roi_pool(f(2, 3, 12, 12), regions(4, 2, 24), (3, 2), 0.5)],
    "vision.multibox_prior": [
        vision.multibox_prior(f(1, 3, 4, 5), (0.3, 0.6), (1, 2, 0.5)),
        vision.multibox_prior(f(1, 3, 2, 2), (0.9,), clip=True, steps=(0.4, 0.5)),
    ],
    "vision.yolo_reorg": [vision.yolo_reorg(f(2, 8, 4, 6), 2)],
    "nn.deformable_conv2d": [
        nn.deformable_conv2d(f(1, 4, 6, 7), f(1, 18, 6, 7, **OFFSETS), f(5, 4, 3, 3), padding=1),
        nn.deformable_conv2d(f(2, 4, 6, 7), f(2, 16, 3, 6, **OFFSETS), f(6, 2, 2, 2), (2, 1), 0, 1, 2, 2),
    ],
    "nn.correlation": [
        nn.correlation(f(2, 3, 8, 9), f(2, 3, 8, 9), 3, 2, 1, 1, 2),
        nn.correlation(f(1, 3, 8, 9), f(1, 3, 8, 9), 1, 2, 2, 2, 1, False),
    ],
    "image.resize1d": [image.resize1d(f(2, 3, 7), 11), image.resize1d(f(2, 7, 3), 4, "NWC", "nearest_neighbor")],
    "image.resize3d": [
        image.resize3d(f(1, 2, 3, 4, 5), (5, 6, 4)),
        image.resize3d(f(1, 2, 3, 4, 5), (6, 8, 10), method="nearest_neighbor"),
        image.resize3d(f(1, 2, 3, 4, 5), (4, 4, 7), method="cubic"),
    ],
    "nn.upsampling": [
        nn.upsampling(f(1, 3, 4, 5), 2, 3),
        nn.upsampling(f(1, 3, 4, 5), 1.5, 2, method="bilinear", align_corners=True),
        nn.upsampling(f(1, 4, 5, 3), 2, 2, "NHWC", "bilinear"),
    ],
    "nn.upsampling3d": [
        nn.upsampling3d(f(1, 2, 2, 3, 4), 2, 2, 2),
        nn.upsampling3d(f(1, 2, 2, 3, 4), 1.5, 2, 2, method="trilinear"),
    ],
    "einsum": [
        op.einsum([f(5, 7), f(7, 6)], "ij,jk->ik"),
        op.einsum([f(2, 5, 7), f(2, 6, 7), f(6)], "bij,bkj,k->bi"),
        op.einsum([f(4, 3), f(5)], "ij,k->kj"),
        op.einsum([f(4, 3)], "ij->ji"),
    ],
    "variance": [
        op.variance(f(3, 5, 7), (0, 2), with_mean=f(1, 5, 1)),
        op.variance(f(3, 5, 7), 1, True, unbiased=True, with_mean=f(3, 1, 7)),
    ],
    "cumprod": [
        op.cumprod(f(4, 9), 1),
        op.cumprod(i(12), 0, "int32"),
        op.cumprod(f(4, 9), 0, exclusive=True),
    ],
    "sparse_to_dense": [
        op.sparse_to_dense(const(np.array([[0, 1], [2, 0]])), (3, 4), f(2), 1.5),
        op.sparse_to_dense(const(np.array([4, 1, 3])), (6,), f()),
        op.sparse_to_dense(const(np.array(3)), (5,), f()),
    ],
    "nn.sparse_dense": [
        nn.sparse_dense(f(5, 12), compressed(7, 12)),
        nn.sparse_dense(f(5, 12), compressed(4, 3, (2, 4))),
        nn.sparse_dense(f(5, 12), compressed(7, 12), True),
    ],
    "nn.internal.sparse_dense_padded": [nn.internal.sparse_dense_padded(f(5, 12), compressed(7, 12))],
    "nn.sparse_add": [nn.sparse_add(f(7, 12), compressed(7, 12))],
    "nn.sparse_conv2d": [
        nn.sparse_conv2d(f(1, 5, 6, 8), compressed(4, 2, (4, 4))),
        nn.sparse_conv2d(f(1, 2, 5, 6), compressed(4, 18), "NCHW", 3),
    ],
    "nn.contrib_conv2d_winograd_nnpack_weight_transform": [
        nn.contrib_conv2d_winograd_nnpack_weight_transform(f(4, 3, 3, 3))
    ],
    "nn.contrib_conv3d_winograd_weight_transform": [
        nn.contrib_conv3d_winograd_weight_transform(f(4, 3, 3, 3, 3), 2),
        nn.contrib_conv3d_winograd_weight_transform(f(4, 3, 1, 3, 3), 4),
    ],
    "nn.contrib_conv3d_winograd_without_weight_transform": [
        nn.contrib_conv3d_winograd_without_weight_transform(f(1, 3, 5, 5, 6), f(4, 3, 4, 4, 4), 2, 3, padding=1)
    ],
}
