"""Run a model of any format: ONNX, TFLite, Keras, TensorFlow, PyTorch, Darknet, Caffe, Core ML, Paddle, MXNet …

    python examples/any_model.py MODEL [--shape 1,3,224,224] [--signature NAME] [--outputs NAME,NAME]

`--shape` is that of one input, in the order of the inputs, where the file leaves sizes open. Prints each result, and
the class of its largest value where the file has labels.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import tilewright as tw


def run_any(model: Any, shapes: Any = None, signature: str | None = None, outputs: Any = None) -> dict[str, np.ndarray]:
    """The results of a model for random inputs, by name; states begin as the model says."""
    executable = tw.compile(model, input_shapes=shapes, signature=signature, outputs=outputs)
    states, metadata = tw.initial_states(model, signature), tw.metadata(model)
    rng = np.random.default_rng(0)
    inputs = {
        spec.name: states.get(spec.name, (rng.random(spec.shape) * 8).astype(spec.dtype.numpy))
        for spec in executable.inputs
    }
    for name, raw in metadata.normalization.items():  # what the file says that is done to raw values first
        if name in inputs and name not in states:
            inputs[name] = ((inputs[name] - np.asarray(raw.mean)) / np.asarray(raw.deviation)).astype(
                inputs[name].dtype
            )
    results = executable.run(inputs)
    found = {spec.name: np.asarray(value) for spec, value in zip(executable.outputs, results)}
    for name, value in found.items():
        labels = metadata.labels.get(name, ())
        best = labels[int(value.argmax()) % len(labels)] if labels else ""
        print(f"{name}: {value.dtype}{list(value.shape)} {best}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--shape", action="append", type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--signature")
    parser.add_argument("--outputs", type=lambda text: text.split(","))
    given = parser.parse_args()
    run_any(given.model, given.shape, given.signature, given.outputs)
