"""Run by the tests with the older form of programs switched on: saves each function and layer with what it gives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from tests.frontend.paddle.test_layers import FUNCTIONS, IMAGE, LAYERS, Of


def save(folder: Path, name: str, layer: Any, shape: tuple[int, ...]) -> None:
    """The program, its input and its result, in a folder of their own."""
    layer.eval()
    rng = np.random.default_rng(1)
    for parameter in layer.parameters():
        parameter.set_value(rng.uniform(0.2, 1, parameter.shape).astype("f"))
    x = rng.uniform(-2, 2, shape).astype("f")
    wanted = layer(paddle.to_tensor(x)).numpy()
    path = folder / name.replace(" ", "_")
    try:
        paddle.jit.save(layer, str(path / "net"), input_spec=[paddle.static.InputSpec(shape, "float32", "x")])
    except Exception as error:  # Paddle 3 writes some operators in today's form only
        print(f"{name}: {type(error).__name__}")
        return
    np.savez(path / "values.npz", x=x, wanted=wanted)


if __name__ == "__main__":
    for name, function in FUNCTIONS.items():
        save(Path(sys.argv[1]), name, Of(function), IMAGE)
    for name, (make, shape) in LAYERS.items():
        save(Path(sys.argv[1]), name, make(), shape)
