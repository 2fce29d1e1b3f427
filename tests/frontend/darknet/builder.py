"""Cfg texts and weights for tests, and OpenCV's results for them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

NET = "[net]\nwidth={1}\nheight={0}\nchannels={2}\n"
ON_VECTORS = "[net]\ninputs={}\n"


def weights(count: int, seed: int = 0, positive: bool = False) -> bytes:
    """A weights file of `count` random numbers."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, count) if positive else rng.standard_normal(count) * 0.3
    return file_of(values)


def file_of(values: Any) -> bytes:
    """A weights file of these numbers."""
    return struct.pack("<3iQ", 0, 2, 5, 1) + np.asarray(values, "<f4").tobytes()


def conv_weights(rng: np.random.Generator, filters: int, inputs: int, size: int, normalized: bool = False) -> list[Any]:
    """Biases, the batch normalization if there is one, and filters."""
    parts = [rng.standard_normal(filters)]
    if normalized:
        parts += [rng.standard_normal(filters), rng.standard_normal(filters), rng.uniform(0.5, 2, filters)]
    return [*parts, rng.standard_normal((filters, inputs, size, size)) * 0.3]


def packed(*parts: Any) -> bytes:
    """A weights file of arrays one behind the other."""
    return file_of(np.concatenate([np.ravel(part) for part in parts]) if parts else [])


def opencv(cv2: Any, folder: Path, cfg: str, data: bytes, x: np.ndarray) -> list[np.ndarray]:
    """The outputs by OpenCV's dnn."""
    (folder / "net.cfg").write_text(cfg)
    (folder / "net.weights").write_bytes(data)
    net = cv2.dnn.readNetFromDarknet(str(folder / "net.cfg"), str(folder / "net.weights"))
    net.setInput(x)
    return list(net.forward(net.getUnconnectedOutLayersNames()))
