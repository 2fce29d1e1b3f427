"""A service of BentoML: `ARTIFACT=model.tw bentoml serve examples/serving/bentoml_service.py:Tilewright`.

POST /run takes the model's first input as JSON `{"x": [[…]]}`. Rows of several requests are run as one batch.
"""

from __future__ import annotations

import os

import bentoml
import numpy as np

import tilewright


@bentoml.service(traffic={"timeout": 60})
class Tilewright:
    """A compiled model of one input and a symbolic batch."""

    def __init__(self) -> None:
        self.model = tilewright.load(os.environ["ARTIFACT"])

    @bentoml.api(batchable=True, max_batch_size=32, max_latency_ms=1000)
    def run(self, x: np.ndarray) -> np.ndarray:
        """The first output."""
        (spec,) = self.model.inputs
        return self.model.run({spec.name: np.ascontiguousarray(x, spec.numpy)})[0]
