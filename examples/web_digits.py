"""Digits drawn by hand in a browser: a network trained here, compiled to WebAssembly, and a page to draw on.

    python examples/web_digits.py web/ && python -m http.server -d web      ->  http://localhost:8000

The network is that of `train_digits.py`, which needs scikit-learn: `pip install tilewright[train,wasm]`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright import relay

sys.path.insert(0, str(Path(__file__).parent))
from train_digits import Array, batches, cnn, compiled_trainer, digits


def trained(epochs: int) -> dict[str, Array]:
    """Weights after so many epochs."""
    images, labels, _, _ = digits()
    trainer = compiled_trainer("cnn", "adam")
    for epoch in range(epochs):
        for rows in batches(len(images), epoch):
            trainer(x=images[rows], y=labels[rows])
    return {name: np.asarray(value) for name, value in trainer.parameters.items()}


def classifier(weights: dict[str, Array], target: str) -> tw.runtime.model.Model:
    """The probabilities of ten digits for an image [1, 8, 8] from 0 (paper) to 1 (ink)."""
    x = relay.var("image", shape=(1, 8, 8))
    scores = cnn(x, {name: relay.const(value) for name, value in weights.items()})  # type: ignore[misc]
    return tw.compile(relay.IRModule.from_expr(relay.Function([x], relay.nn.softmax(scores))), target=target)


def main() -> None:
    """Train, compile, and write the files of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    weights = trained(options.epochs)
    _, _, images, labels = digits()
    right = [classifier_run.argmax() == label for classifier_run, label in zip(_scores(weights, images), labels)]
    print(f"{100 * np.mean(right):.1f} % of {len(labels)} test images are right")
    model = classifier(weights, "wasm")
    written = model.export_web(options.folder, "digits")  # type: ignore[attr-defined]
    shutil.copyfile(Path(__file__).with_suffix(".html"), options.folder / "index.html")
    print("\n".join(f"{path}: {path.stat().st_size / 1000:.1f} kB" for path in written if path.suffix != ".html"))


def _scores(weights: dict[str, Array], images: Array) -> list[Array]:
    here = classifier(weights, "cpu")
    return [np.asarray(here(image[None])) for image in images]


if __name__ == "__main__":
    main()
