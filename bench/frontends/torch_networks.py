"""Agreement of networks of torchvision, with random weights, with eager mode.

    python bench/frontends/torch_networks.py [--ways export,compile] [--file FILE] [--seconds 500] [NAME ...]

Those that classify, segment, detect, read videos or find the flow, the small ones first; last those that can be
quantized, as floats. They get small images where they take any size. Networks that detect get weights whose scores lie
apart; torch.export refuses them, as they branch on how many boxes they find. What they detect is compared box by box:
positions in the order of scores are exchanged where scores differ by as little as eager mode's from those in float64.
`torch_compared.py` says what a line means. Needs torch and torchvision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch_compared import Case, compare_all
from vision import models

#: Inputs of networks that want something else than one image of `_SIDE` by `_SIDE`.
_SIDE = 96
_INPUTS = {
    "inception_v3": (1, 3, 128, 128), "mvit_v1_b": (1, 3, 16, 224, 224), "mvit_v2_s": (1, 3, 16, 224, 224),
    "r3d_18": (1, 3, 8, 64, 64), "mc3_18": (1, 3, 8, 64, 64), "r2plus1d_18": (1, 3, 8, 64, 64),
    "s3d": (1, 3, 16, 224, 224), "maxvit_t": (1, 3, 224, 224),
    "swin3d_t": (1, 3, 8, 64, 64), "swin3d_s": (1, 3, 8, 64, 64), "swin3d_b": (1, 3, 8, 64, 64),
}  # fmt: skip

#: Vision transformers, whose embedding of positions is made for one size: the side, a multiple of the patches'.
_FIXED_SIDES = {"vit_b_16": 96, "vit_b_32": 96, "vit_l_16": 96, "vit_l_32": 96, "vit_h_14": 98}

#: Networks that take images of any sizes, in a list, and of two, for the flow from one to the other.
_DETECTING = ("rcnn", "retinanet", "ssd", "fcos")
_FLOW = "raft"

#: Layers of those that detect whose results are the scores.
_SCORES = ("cls_logits", "cls_score", "classification_head.module_list", "classification_head.conv")


def names_by_size() -> list[str]:
    """The networks of torchvision, those with few parameters first."""

    def parameters(name: str) -> int:
        weights = list(models.get_model_weights(name))
        return int(weights[0].meta["num_params"]) if weights else 0

    return sorted(models.list_models(), key=lambda name: (name.startswith("quantized"), parameters(name)))


def build(name: str) -> torch.nn.Module:
    """A network with random weights."""
    return models.get_model(name, weights=None, **_without_weights(name)).eval()


def example(name: str) -> tuple[Any, ...]:
    """Its arguments."""
    if _detects(name):
        return ([torch.rand(3, 128, 128)],)
    if _FLOW in name:
        return torch.rand(1, 3, 128, 128) * 2 - 1, torch.rand(1, 3, 128, 128) * 2 - 1
    side = _FIXED_SIDES.get(name, _SIDE)
    return (torch.randn(_INPUTS.get(name, (1, 3, side, side))),)


def case_of(name: str) -> Case:
    """A network whose results tell something, with its inputs."""
    module, given = build(name), example(name)
    with torch.no_grad():
        if _detects(name):
            _settle(module.backbone)
        for label, parameter in module.named_parameters():
            if not parameter.any():  # heads of zeros, which would leave nothing to compare
                parameter.normal_(0, 0.02)
            if parameter.dim() > 1 and any(part in label for part in _SCORES):
                parameter.mul_(4)
    refused = {"export": "batched_nms branches on the number of boxes"}
    return Case(module, given, skipped=refused, in_order=_box_by_box) if _detects(name) else Case(module, given)


def _box_by_box(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[torch.Tensor]:
    """The detections in the order of `wanted`: each with the nearest box of its label that is left."""
    if [one.shape for one in found] != [one.shape for one in wanted]:
        return found
    boxes = next(position for position, one in enumerate(wanted) if one.dim() == 2 and one.shape[1] == 4)
    labels = next(position for position, one in enumerate(wanted) if one.dtype == torch.int64)
    apart = torch.cdist(wanted[boxes].double(), found[boxes].double(), p=float("inf"))
    apart = apart + 1e6 * (wanted[labels][:, None] != found[labels][None])
    order = []
    for row in apart:
        order.append(int(row.argmin()))
        apart[:, order[-1]] = float("inf")
    return [one[order] if len(one) == len(order) else one for one in found]


def _detects(name: str) -> bool:
    return any(part in name for part in _DETECTING)


def _settle(backbone: torch.nn.Module) -> None:
    """Have normalizations keep the statistics of noise: with those of no data all positions look alike in deep
    layers.
    """
    for part in backbone.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None
    backbone.train()
    for _ in range(2):
        backbone(torch.rand(2, 3, 320, 320) * 4 - 2)
    backbone.eval()


def _without_weights(name: str) -> dict[str, Any]:
    """Arguments that keep builders from fetching weights, or from a way of their own to set them."""
    if name in _FIXED_SIDES:
        return {"image_size": _FIXED_SIDES[name]}
    if name in ("googlenet", "inception_v3"):
        return {"init_weights": True, "aux_logits": name == "inception_v3"}
    if name in ("quantized_googlenet", "quantized_inception_v3"):
        return {"init_weights": True, "aux_logits": False}
    if "rcnn" in name:
        return {"weights_backbone": None, "box_score_thresh": 0.0, "min_size": 128, "max_size": 160}
    if any(part in name for part in ("retinanet", "fcos")):
        return {"weights_backbone": None, "score_thresh": 0.0, "min_size": 128, "max_size": 160}
    if "ssd" in name:
        return {"weights_backbone": None, "score_thresh": 0.0}
    backbones = ("fcn", "deeplab", "lraspp")
    return {"weights_backbone": None} if any(part in name for part in backbones) else {}


if __name__ == "__main__":
    compare_all(names_by_size, case_of, __doc__)
