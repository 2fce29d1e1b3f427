"""Train a small network that tells gestures by an accelerometer, and save it for a board, with PyTorch or Keras.

    python examples/train_gestures.py [--framework torch|keras] [--epochs N] [-o DIR]

Writes `gestures.pt2` (PyTorch) or `gestures.keras` into DIR, with `gestures.npz`: readings to find ranges by when it is
quantized. docs/microcontrollers.md goes on from there to a program on a board. The readings are made here: 64 times
three axes, at rest, walking, shaken and turned in a circle.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GESTURES = ("rest", "walk", "shake", "circle")
SAMPLES, AXES, BATCH = 64, 3, 64


def readings(count: int, seed: int) -> tuple[Array, Array]:
    """Accelerations in g as float32 [count, 3, 64, 1], and the gesture of each."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(GESTURES), count)
    time = np.arange(SAMPLES) / SAMPLES
    data = rng.normal(0, 0.08, (count, AXES, SAMPLES))
    data[:, 2] += 1.0  # gravity
    for one, label in zip(data, labels, strict=True):
        phase, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.6, 1.4)
        if label == 1:
            one[2] += 0.4 * strength * np.abs(np.sin(2 * np.pi * 2 * time + phase))
        elif label == 2:
            one[0] += 1.2 * strength * np.sin(2 * np.pi * rng.uniform(6, 9) * time + phase)
        elif label == 3:
            angle = 2 * np.pi * rng.uniform(1.5, 2.5) * time + phase
            one[0] += 0.8 * strength * np.cos(angle)
            one[1] += 0.8 * strength * np.sin(angle)
    return data[..., None].astype(np.float32), labels


def train_torch(epochs: int, folder: Path) -> float:
    """Train with PyTorch and write gestures.pt2; the share of new readings that it gets right."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(AXES, 16, (5, 1), stride=(2, 1), padding=(2, 0)),
        nn.ReLU(),
        nn.Conv2d(16, 32, (5, 1), stride=(2, 1), padding=(2, 0)),
        nn.ReLU(),
        nn.AvgPool2d((16, 1)),
        nn.Flatten(),
        nn.Linear(32, len(GESTURES)),
    )
    x, y = map(torch.from_numpy, readings(2048, 0))
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            optimizer.step()
    network.eval()
    torch.export.save(torch.export.export(network, (x[:1],)), folder / "gestures.pt2")
    new, truth = readings(1024, 1)
    with torch.no_grad():
        found = network(torch.from_numpy(new)).argmax(1).numpy()
    return float((found == truth).mean())


def train_keras(epochs: int, folder: Path) -> float:
    """Train with Keras and write gestures.keras; the share of new readings that it gets right."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    network = keras.Sequential(
        [
            keras.Input((SAMPLES, 1, AXES), batch_size=1, name="input"),
            layers.Conv2D(16, (5, 1), strides=(2, 1), padding="same", activation="relu"),
            layers.Conv2D(32, (5, 1), strides=(2, 1), padding="same", activation="relu"),
            layers.AveragePooling2D((16, 1)),
            layers.Flatten(),
            layers.Dense(len(GESTURES)),
        ]
    )
    network.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = readings(2048, 0)
    network.fit(channels_last(x), y, BATCH, epochs, verbose=0)
    network.save(folder / "gestures.keras")
    new, truth = readings(1024, 1)
    return float((network.predict(channels_last(new), verbose=0).argmax(1) == truth).mean())


def channels_last(x: Array) -> Array:
    """[N, C, H, W] as [N, H, W, C]."""
    return x.transpose(0, 2, 3, 1)


def main() -> None:
    """Train, write model and readings, print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("torch", "keras"), default="torch")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("-o", "--output", type=Path, default=Path())
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    train = train_torch if options.framework == "torch" else train_keras
    accuracy = train(options.epochs, options.output)
    x, _ = readings(64, 2)
    np.savez(options.output / "gestures.npz", input=x if options.framework == "torch" else channels_last(x))
    print(f"{accuracy:.1%} of new readings are right: {', '.join(GESTURES)}")


if __name__ == "__main__":
    main()
