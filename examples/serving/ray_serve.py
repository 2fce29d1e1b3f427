"""A deployment of Ray Serve: `serve run examples.serving.ray_serve:build artifact=MODEL.tw`.

POST / takes the model's first input as JSON `{"x": [[…]]}`. Requests that come together are run as one batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ray import serve

from tilewright import load


@serve.deployment(max_ongoing_requests=64)
class Tilewright:
    """A compiled model of one input and a symbolic batch; one copy a replica."""

    def __init__(self, artifact: str, threads: int = 1) -> None:
        self.model = load(artifact, threads=threads)

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.002)
    async def run(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        """The first output of each request."""
        (spec,) = self.model.inputs
        (joined, *_) = self.model.run({spec.name: np.concatenate(rows)})
        return np.split(joined, np.cumsum([len(one) for one in rows])[:-1])

    async def __call__(self, request: Any) -> dict[str, Any]:
        """Answer a request over HTTP."""
        (spec,) = self.model.inputs
        given = np.asarray((await request.json())["x"], spec.numpy)
        return {"y": (await self.run(given)).tolist()}


def build(args: dict[str, str]) -> Any:
    """The application, for `serve run`."""
    return Tilewright.bind(args["artifact"])
