"""Whether networks of torchvision with random weights agree with eager mode, and the seconds that both take.

    python bench/frontends/torch_networks.py [--threads 1] [--rounds 7] [--file FILE] [--seconds 500] [NAME ...]

Each network is exported by `torch.export`, compiled, and run on one image: those that classify, segment, detect or read
videos, the small ones first; those that can be quantized as floats. What torch.export refuses runs by `torch.compile`,
and the line has the reason: networks that detect branch on how many boxes they find. They get small images, and weights
whose scores lie apart, for boxes of equal scores have no order. "difference" is the largest over the largest output.
Seconds are the least of interleaved rounds. With `--file`, lines are added to a file, and networks that it has a line
on are not run again; `--seconds` begins no network after that time. Needs torch and torchvision.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vision import models

import tilewright
from tilewright.torch_backend import FallbackWarning
from tilewright.torch_backend import tilewright as backend

#: Inputs of networks that want something else than one image of 224 by 224.
_INPUTS = {
    "inception_v3": (1, 3, 299, 299), "mvit_v1_b": (1, 3, 16, 224, 224), "mvit_v2_s": (1, 3, 16, 224, 224),
    "r3d_18": (1, 3, 8, 64, 64), "mc3_18": (1, 3, 8, 64, 64), "r2plus1d_18": (1, 3, 8, 64, 64),
    "s3d": (1, 3, 16, 224, 224), "vit_h_14": (1, 3, 224, 224),
    "swin3d_t": (1, 3, 8, 64, 64), "swin3d_s": (1, 3, 8, 64, 64), "swin3d_b": (1, 3, 8, 64, 64),
}  # fmt: skip

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

    return sorted(models.list_models(), key=parameters)


def build(name: str) -> torch.nn.Module:
    """A network with random weights."""
    return models.get_model(name, weights=None, **_without_weights(name)).eval()


def example(name: str) -> tuple[Any, ...]:
    """Its arguments."""
    if any(part in name for part in _DETECTING):
        return ([torch.rand(3, 128, 128)],)
    if _FLOW in name:
        return torch.rand(1, 3, 128, 128) * 2 - 1, torch.rand(1, 3, 128, 128) * 2 - 1
    return (torch.randn(_INPUTS.get(name, (1, 3, 224, 224))),)


def measure(name: str, threads: int, rounds: int) -> str:
    """A line on one network."""
    torch.manual_seed(0)
    module, given = build(name), example(name)
    with torch.no_grad():
        if any(part in name for part in _DETECTING):
            _settle(module.backbone)
        for label, parameter in module.named_parameters():
            if not parameter.any():  # heads of zeros, which would leave nothing to compare
                parameter.normal_(0, 0.02)
            if parameter.dim() > 1 and any(part in label for part in _SCORES):
                parameter.mul_(4)
        began = time.perf_counter()
        try:
            program = torch.export.export(module, given)
        except Exception as error:  # torch.export raises whatever it meets
            return _by_torch_compile(name, module, given, f"{type(error).__name__}: {' '.join(str(error).split())}")
        model = tilewright.compile(program, threads=threads, cache=False)
        compiling = time.perf_counter() - began
        wanted = [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(module(*given))]
        leaves = torch.utils._pytree.tree_leaves(given)
        feed = {spec.name: leaf.numpy() for spec, leaf in zip(model.inputs, leaves, strict=True)}
        found = model.run(feed)
        difference = max(_difference(f, w) for f, w in zip(found, wanted, strict=True))
        line = f"{name}: difference {difference:.1e}, compiled in {compiling:.1f} s"
        if not rounds:
            return line
        eager, ours = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            module(*given)
            eager.append(time.perf_counter() - began)
            began = time.perf_counter()
            model.run(feed)
            ours.append(time.perf_counter() - began)
    return (
        f"{line}, eager {min(eager) * 1e3:.1f} ms, tilewright {min(ours) * 1e3:.1f} ms, "
        f"ratio {min(eager) / min(ours):.2f}"
    )


def _settle(backbone: torch.nn.Module) -> None:
    """Have normalizations keep the statistics of noise: with those of no data all places look alike in deep layers."""
    for part in backbone.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None
    backbone.train()
    for _ in range(2):
        backbone(torch.rand(2, 3, 320, 320) * 4 - 2)
    backbone.eval()


def _by_torch_compile(name: str, module: torch.nn.Module, given: tuple[Any, ...], reason: str) -> str:
    """A line on a network that torch.export refuses for `reason`."""
    torch._dynamo.reset()
    wanted = torch.utils._pytree.tree_leaves(module(*given))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        began = time.perf_counter()
        found = torch.utils._pytree.tree_leaves(torch.compile(module, backend=backend)(*given))
        seconds = time.perf_counter() - began
    back = [" ".join(str(one.message).split())[:200] for one in told if issubclass(one.category, FallbackWarning)]
    difference = max(_difference(f.numpy(), w.numpy()) for f, w in zip(found, wanted, strict=True))
    sizes = ", ".join(str(list(one.shape)) for one in wanted)
    fallen = "".join(f"; in PyTorch: {one}" for one in dict.fromkeys(back))
    line = f"{name}: difference {difference:.1e} of {sizes} by torch.compile, {seconds:.1f} s{fallen}"
    return f"{line}; torch.export: {reason[:160]}"


def _difference(found: Any, wanted: Any) -> float:
    """The largest difference over the largest element; infinite for another shape."""
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30)) if wanted.size else 0.0


def _without_weights(name: str) -> dict[str, Any]:
    """Arguments that keep builders from fetching weights, or from a way of their own to set them."""
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


def main() -> None:
    """Print a line a network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="0 to compare numbers only")
    parser.add_argument("--file", type=Path, help="add lines to this file; what it has is not run again")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no network after this time")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    began = time.monotonic()
    known = options.file.read_text().splitlines() if options.file is not None and options.file.exists() else []
    done = {line.partition(":")[0] for line in known}
    for name in options.names or names_by_size():
        if name in done or time.monotonic() - began > options.seconds:
            continue
        try:
            line = measure(name, options.threads, options.rounds)
        except Exception as error:  # of torch.export too: the other networks are tried
            line = f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
        print(line, flush=True)
        if options.file is not None:
            with options.file.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
