"""Whether networks of torchvision with random weights agree with eager mode, and the seconds that both take.

    python bench/frontends/torch_networks.py [--threads 1] [NAME ...]

Each network is exported by `torch.export`, compiled, and run on one image. "difference" is the largest one over the
largest output. Seconds are the least of interleaved rounds. Needs torch and torchvision.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
import torchvision

import tilewright

_DEFAULT = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "vit_b_16", "swin_t", "convnext_tiny")
_ROUNDS = 7


def measure(name: str, threads: int) -> str:
    """A line on one network."""
    torch.manual_seed(0)
    module = torchvision.models.get_model(name, weights=None).eval()
    image = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():  # heads of zeros, which would leave nothing to compare
                parameter.normal_(0, 0.02)
        began = time.perf_counter()
        model = tilewright.compile(torch.export.export(module, (image,)), threads=threads, cache=False)
        compiling = time.perf_counter() - began
        expected = module(image).numpy()
        found = model(image.numpy())
        difference = np.abs(found - expected).max() / np.abs(expected).max()
        eager, ours = [], []
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            module(image)
            eager.append(time.perf_counter() - began)
            began = time.perf_counter()
            model(image.numpy())
            ours.append(time.perf_counter() - began)
    return (
        f"{name}: difference {difference:.1e}, compiled in {compiling:.1f} s, eager {min(eager) * 1e3:.1f} ms, "
        f"tilewright {min(ours) * 1e3:.1f} ms, ratio {min(eager) / min(ours):.2f}"
    )


def main() -> None:
    """Print a line a network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=_DEFAULT)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        try:
            print(measure(name, options.threads), flush=True)
        except tilewright.errors.TilewrightError as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
