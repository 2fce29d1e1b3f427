"""torchvision's networks, also where its native operators do not load, which only those that detect objects need."""

from __future__ import annotations

import sys

import torch

try:
    from torchvision import models
except RuntimeError:  # its operators are missing, and it describes one of them to PyTorch
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision import models

__all__ = ["models"]
