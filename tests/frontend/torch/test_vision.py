"""Operators of torchvision beside torchvision itself; skipped where its own operators do not load."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision", exc_type=(ImportError, RuntimeError))
if not torchvision.extension._has_ops():
    pytest.skip("the operators of torchvision are of another torch", allow_module_level=True)


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def check(function, *given, tolerance: float = 1e-5) -> None:
    """Compare a function, exported and compiled, with PyTorch."""
    module = Call(function)
    model = tilewright.compile(torch.export.export(module, given), cache=False)
    feed = {spec.name: value.numpy() for spec, value in zip(model.inputs, given, strict=True)}
    wanted = module(*given).numpy()
    (found,) = model.run(feed)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def boxes(count: int, size: float, seed: int = 0) -> torch.Tensor:
    """Boxes [count, 4] within an image of `size`."""
    torch.manual_seed(seed)
    corners = torch.rand(count, 2, 2) * size
    return torch.cat([corners.amin(1), corners.amax(1)], 1)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 1.0])
def test_nms_agrees_with_torchvision(threshold: float) -> None:
    check(lambda b, s: torch.ops.torchvision.nms(b, s, threshold), boxes(40, 10.0), torch.rand(40))


def test_nms_of_no_box() -> None:
    check(lambda b, s: torch.ops.torchvision.nms(b, s, 0.5), boxes(0, 10.0), torch.rand(0))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align_agrees_with_torchvision(aligned: bool, ratio: int) -> None:
    rois = torch.cat([torch.randint(0, 2, (7, 1)).float(), boxes(7, 40.0)], 1)
    rois[0, 1:] = torch.tensor([3.0, 3.0, 3.5, 3.25])  # smaller than a pixel
    check(lambda x, r: torchvision.ops.roi_align(x, r, (3, 2), 0.25, ratio, aligned), torch.randn(2, 3, 10, 12), rois)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_images_of_open_size(ratio: int) -> None:
    given = torch.randn(1, 3, 10, 12), torch.tensor([[0.0, 1.0, 2.0, 20.0, 30.0], [0.0, 3.0, 3.0, 9.0, 9.0]])
    module = Call(lambda x, r: torchvision.ops.roi_align(x, r, (3, 2), 0.25, ratio))
    height, width = torch.export.Dim("h", min=4, max=40), torch.export.Dim("w", min=4, max=40)
    program = torch.export.export(module, given, dynamic_shapes={"args": ({2: height, 3: width}, None)})
    model = tilewright.compile(program, cache=False)
    for image in (given[0], torch.randn(1, 3, 7, 15)):
        feed = {spec.name: value.numpy() for spec, value in zip(model.inputs, (image, given[1]), strict=True)}
        wanted = module(image, given[1]).numpy()
        np.testing.assert_allclose(model.run(feed)[0], wanted, rtol=1e-5, atol=1e-5)


def test_regions_that_a_run_finds() -> None:
    def found(x, b, s):
        kept = torch.ops.torchvision.nms(b, s, 0.3)
        rois = torch.nn.functional.pad(b[kept], (1, 0))
        return torchvision.ops.roi_align(x, rois, (2, 2), 0.5, 2, False)

    check(found, torch.randn(1, 3, 10, 12), boxes(9, 20.0), torch.rand(9))


def test_deformable_convolutions_agree_with_torchvision() -> None:
    def moved(x, w, o, b):
        return torchvision.ops.deform_conv2d(x, o, w, b, stride=(2, 1), padding=(1, 1))

    check(moved, torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 3), torch.randn(2, 18, 5, 8), torch.randn(6),
          tolerance=1e-4)  # fmt: skip
