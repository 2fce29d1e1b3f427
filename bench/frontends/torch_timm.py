"""Agreement of networks of timm, with random weights, with eager mode: the smallest of each family.

    python bench/frontends/torch_timm.py [--ways export,compile] [--file FILE] [--seconds 500] [NAME ...]

`torch_compared.py` says what a line means. A network that takes images of any size gets small ones. Needs torch and
timm.
"""

from __future__ import annotations

import re

import timm
import torch
from torch_compared import Case, compare_all

#: Sides of images, tried in turn before the one that the network is made for.
_SIDES = (96, 128)

#: Parts of the names of small networks, so that not all need be built to find the smallest of a family.
_SMALL = "tiny|nano|pico|atto|femto|small|mini|_xxs|_xs|_t0|xxsmall|zepto|_18|_ti|_050|_035|b0|b1|l0|_s$|_t$|_xt"
_BUILT = 8


def smallest() -> list[str]:
    """The network with the fewest parameters of each module of timm that has one, small ones first."""
    found = []
    for module in timm.list_modules():
        names = sorted(timm.list_models(module=module), key=lambda name: (not re.search(_SMALL, name), name))
        sizes = [(_parameters(name), name) for name in names[:_BUILT]]
        if sizes:
            found.append(min(sizes))
    return [name for _, name in sorted(found)]


def _parameters(name: str) -> float:
    try:
        with torch.device("meta"):
            return sum(one.numel() for one in timm.create_model(name).parameters())
    except (RuntimeError, NotImplementedError, ValueError, TypeError):  # it computes as it is built
        return float("inf")


def case_of(name: str) -> Case:
    """A network with random weights on an image of the smallest side that it takes."""
    module = timm.create_model(name, pretrained=False).eval()
    config = module.default_cfg
    own = tuple(config["input_size"])
    sides = () if config.get("fixed_input_size") else [side for side in _SIDES if side < own[-1]]
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any() and parameter.dim() > 1:  # heads of zeros, which would leave nothing to compare
                parameter.normal_(0, 0.02)
        for side in sides:
            image = torch.randn(1, own[0], side, side)
            try:
                module(image)
            except (RuntimeError, AssertionError, ValueError):
                continue
            return Case(module, (image,))
    return Case(module, (torch.randn(1, *own),))


if __name__ == "__main__":
    compare_all(smallest, case_of, __doc__)
