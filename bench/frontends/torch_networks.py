"""Whether networks of torchvision with random weights agree with eager mode, and the seconds that both take.

    python bench/frontends/torch_networks.py [--threads 1] [--rounds 7] [NAME ...]

Each network is exported by `torch.export`, compiled, and run on one image. "difference" is the largest one over the
largest output. Seconds are the least of interleaved rounds. Needs torch and torchvision.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from vision import models

import tilewright

_DEFAULT = (
    "alexnet", "convnext_base", "convnext_small", "convnext_tiny", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50",
    "densenet121", "densenet161", "densenet169", "densenet201", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2",
    "efficientnet_b3", "efficientnet_b4", "efficientnet_b5", "efficientnet_v2_s", "efficientnet_v2_m", "fcn_resnet50",
    "googlenet", "inception_v3", "lraspp_mobilenet_v3_large", "maxvit_t", "mc3_18", "mnasnet0_5", "mnasnet0_75",
    "mnasnet1_0", "mnasnet1_3", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "mvit_v1_b", "r2plus1d_18",
    "r3d_18", "regnet_x_1_6gf", "regnet_x_3_2gf", "regnet_x_400mf", "regnet_x_800mf", "regnet_y_1_6gf",
    "regnet_y_3_2gf", "regnet_y_400mf", "regnet_y_800mf", "resnet101", "resnet18", "resnet34", "resnet50",
    "resnext50_32x4d", "s3d",
    "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0", "squeezenet1_0",
    "squeezenet1_1", "swin_s", "swin_t", "swin_v2_t", "vgg11", "vgg11_bn", "vgg13", "vit_b_16", "vit_b_32",
    "wide_resnet50_2",
)  # fmt: skip

#: Inputs of networks that want something else than one image of 224 by 224.
_INPUTS = {
    "inception_v3": (1, 3, 299, 299), "mvit_v1_b": (1, 3, 16, 224, 224), "r3d_18": (1, 3, 8, 64, 64),
    "mc3_18": (1, 3, 8, 64, 64), "r2plus1d_18": (1, 3, 8, 64, 64), "s3d": (1, 3, 16, 64, 64),
}  # fmt: skip


def measure(name: str, threads: int, rounds: int) -> str:
    """A line on one network."""
    torch.manual_seed(0)
    module = models.get_model(name, weights=None, **_without_weights(name)).eval()
    image = torch.randn(_INPUTS.get(name, (1, 3, 224, 224)))
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():  # heads of zeros, which would leave nothing to compare
                parameter.normal_(0, 0.02)
        began = time.perf_counter()
        model = tilewright.compile(torch.export.export(module, (image,)), threads=threads, cache=False)
        compiling = time.perf_counter() - began
        wanted = [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(module(image))]
        given = {model.inputs[0].name: image.numpy()}
        found = model.run(given)
        difference = max(np.abs(f - w).max() / np.abs(w).max() for f, w in zip(found, wanted, strict=True))
        line = f"{name}: difference {difference:.1e}, compiled in {compiling:.1f} s"
        if not rounds:
            return line
        eager, ours = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            module(image)
            eager.append(time.perf_counter() - began)
            began = time.perf_counter()
            model.run(given)
            ours.append(time.perf_counter() - began)
    return (
        f"{line}, eager {min(eager) * 1e3:.1f} ms, tilewright {min(ours) * 1e3:.1f} ms, "
        f"ratio {min(eager) / min(ours):.2f}"
    )


def _without_weights(name: str) -> dict[str, Any]:
    """Arguments that keep builders from fetching weights, or from a way of their own to set them."""
    if name in ("googlenet", "inception_v3"):
        return {"init_weights": True, "aux_logits": name == "inception_v3"}
    return {"weights_backbone": None} if name.startswith(("fcn", "deeplab", "lraspp")) else {}


def main() -> None:
    """Print a line a network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=_DEFAULT)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="0 to compare numbers only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        try:
            print(measure(name, options.threads, options.rounds), flush=True)
        except Exception as error:  # of torch.export too: the other networks are tried
            print(f"{name}: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
