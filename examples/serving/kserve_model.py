"""A model of KServe: `python examples/serving/kserve_model.py --artifact MODEL.tw --model_name NAME`."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import kserve
from kserve.utils.numpy_codec import from_np_dtype

import tilewright


class Tilewright(kserve.Model):
    """A compiled model behind KServe's protocols."""

    def __init__(self, name: str, artifact: str) -> None:
        super().__init__(name)
        self._artifact = artifact

    def load(self) -> bool:
        """Load the artifact."""
        self._model = tilewright.load(self._artifact)
        self.ready = True
        return True

    async def predict(
        self, payload: kserve.InferRequest, headers: Any = None, response_headers: Any = None
    ) -> kserve.InferResponse:
        """Run on the inputs by name, in a thread: the event loop goes on."""
        inputs = {one.name: one.as_numpy() for one in payload.inputs}
        try:
            outputs = await asyncio.to_thread(self._model.run, inputs)
        except tilewright.errors.UserError as error:
            raise kserve.errors.InvalidInput(str(error)) from None
        answers = []
        for spec, array in zip(self._model.outputs, outputs):
            one = kserve.InferOutput(spec.name, list(array.shape), from_np_dtype(array.dtype))
            one.set_data_from_numpy(array, binary_data=False)
            answers.append(one)
        return kserve.InferResponse(payload.id or "", self.name, answers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("--artifact", required=True)
    args = parser.parse_args()
    model = Tilewright(args.model_name, args.artifact)
    model.load()
    kserve.ModelServer().start([model])
