"""Places and owners of samples that lie in no image: the kernels read the nearest there is, as the references do."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Expr, Function, const
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.transform.gradient.gradient import first_order_gradient

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype("float32")
#: An owner -> the image that is read for it.
OWNERS = {-3.0: 0, -0.5: 0, 0.7: 0, 1.9: 1, 2.0: 1, 1e30: 1, np.inf: 1, -np.inf: 0, np.nan: 0}
BOX = (1.0, 0.5, 5.0, 3.5)


def regions(owners: list[float]) -> np.ndarray:
    return np.array([[owner, *BOX] for owner in owners], "float32")


def pooled(rois: Expr) -> list[Call]:
    data = const(IMAGES)
    return [
        op.vision.roi_align(data, rois, (2, 3), 1.0, 2),
        op.vision.roi_align(data, rois, (2, 3), 1.0, mode="max"),
        op.vision.roi_pool(data, rois, (2, 3), 1.0),
    ]


@pytest.mark.parametrize("which", range(3))
def test_a_region_of_no_image_is_of_the_nearest_one(check, which: int) -> None:
    got = check(pooled(const(regions(list(OWNERS))))[which], rtol=1e-4, atol=1e-5)
    expected = check(pooled(const(regions([float(image) for image in OWNERS.values()])))[which], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got, expected)


def test_a_box_of_no_image_is_of_the_nearest_one_also_beyond_32_bits(check) -> None:
    boxes = const(np.tile(np.array([[0.1, 0.2, 0.7, 0.9]], "float32"), (4, 1)))

    def cropped(owners: list[int]) -> np.ndarray:
        return check(op.image.crop_and_resize(const(IMAGES), boxes, const(np.array(owners, "int64")), (2, 2)))

    np.testing.assert_array_equal(cropped([-1, 2, 1 << 32, -(1 << 32) - 1]), cropped([0, 1, 1, 0]))


@pytest.mark.parametrize("position", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
@pytest.mark.sample(10)
def test_no_position_reads_beside_the_image(position: float, padding: str, method: str) -> None:
    """The value at such a position is unspecified; memory beside the image, far away for NaN, is not touched."""
    data, grid = relay.var("data", shape=IMAGES.shape), relay.var("grid", shape=(2, 2, 3, 3))
    sampled = op.image.grid_sample(data, grid, method, padding_mode=padding)
    model = tw.compile(IRModule.from_expr(Function([data, grid], sampled)), cache=False)
    assert model(IMAGES, np.full((2, 2, 3, 3), position, "float32")).shape == (2, 3, 3, 3)


def test_the_gradient_of_a_region_reaches_the_image_that_was_read() -> None:
    data, rois = relay.var("data", shape=IMAGES.shape), relay.var("rois", shape=(2, 5))
    for pool in (op.vision.roi_align(data, rois, 2, 1.0, 2), op.vision.roi_pool(data, rois, 2, 1.0)):
        pooling = infer_type(IRModule.from_expr(Function([data, rois], pool)))["main"]
        model = tw.compile(IRModule.from_expr(first_order_gradient(pooling, [data])), cache=False)
        far, near = (model.run({"data": IMAGES, "rois": regions(owners)})[1] for owners in ([7.0, -2.0], [1.0, 0.0]))
        np.testing.assert_array_equal(far, near)
        assert far[0].any()
        assert far[1].any()


@pytest.mark.parametrize("size", [10, 11])
def test_a_kernel_that_does_not_fit_is_refused_by_every_convolution(size: int) -> None:
    def ones(*shape: int, dtype: str = "float32") -> Expr:
        return const(np.ones(shape, dtype))

    calls = [
        op.nn.conv2d(ones(1, 4, 9, 9), ones(4, 4, size, size)),
        op.nn.contrib_conv2d_int8(ones(1, 4, 9, 9, dtype="uint8"), ones(4, 4, size, size, dtype="int8")),
        op.nn.deformable_conv2d(ones(1, 4, 9, 9), ones(1, 2 * size * size, 1, 1), ones(4, 4, size, size)),
        op.image.dilation2d(ones(1, 4, 9, 9), ones(4, size, size)),
    ]
    for call in calls:
        with pytest.raises(TypeMismatchError, match=f"the kernel {size}x{size} is larger than the padded data 9x9"):
            type_of(call)
