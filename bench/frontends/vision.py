"""torchvision's networks, also where its native operators do not load, which only those that detect objects need."""

from __future__ import annotations

import importlib
import re
import sys

import torch

_library = torch.library.Library("torchvision", "FRAGMENT")
while True:
    try:
        models = importlib.import_module("torchvision.models")
        break
    except RuntimeError as error:  # it describes an operator to PyTorch that is missing
        missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
        if missing is None:
            raise
        _library.define(f"{missing[1]}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]

__all__ = ["models"]
