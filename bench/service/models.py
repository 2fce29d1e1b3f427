"""Small models of many formats, made here or among the real ones of `../shared/models`."""

from __future__ import annotations

import struct
import tarfile
from pathlib import Path

import numpy as np

from bench.fuzz.seeds import seeds

REAL = Path(__file__).resolve().parents[3] / "shared" / "models" / "real"
_NETWORK = """[net]
width=8
height=8
channels=3
[convolutional]
filters=4
size=3
stride=1
pad=1
activation=leaky
[avgpool]
[softmax]
"""


def small_models(folder: Path) -> dict[str, tuple[Path, str]]:
    """Models by name, each a file with its framework."""
    found = {}
    for name in ("perceptron", "convolution", "quantized", "classic_learning", "functions"):
        file = folder / f"{name}.onnx"
        file.write_bytes(seeds()[name].SerializeToString())
        found[name] = (file, "ONNX")
    found["darknet"] = (darknet(folder), "DARKNET")
    for name in ("ad01_int8", "kws_ref_model_float32"):
        if (real := REAL / "tflite" / "mlperf_tiny" / f"{name}.tflite").exists():
            file = folder / real.name
            file.write_bytes(real.read_bytes())
            found[name] = (file, "TFLITE")
    return found


def darknet(folder: Path) -> Path:
    """A convolution with its weights, as an archive."""
    weights = np.random.default_rng(0).standard_normal(4 + 4 * 3 * 9).astype("<f4").tobytes()
    (folder / "net.cfg").write_text(_NETWORK)
    (folder / "net.weights").write_bytes(struct.pack("<3iq", 0, 2, 0, 0) + weights)
    with tarfile.open(folder / "darknet.tar.gz", "w:gz") as archive:
        for name in ("net.cfg", "net.weights"):
            archive.add(folder / name, name)
    return folder / "darknet.tar.gz"
