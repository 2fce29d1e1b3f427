"""A runtime of MLServer: `{"implementation": "mlserver_runtime.Tilewright", "parameters": {"uri": "model.tw"}}`.

    python examples/serving/mlserver_runtime.py MODEL.tw

writes such a model-settings.json beside the model; then `mlserver start FOLDER` with this file's folder in PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver.utils import get_model_uri

import tilewright


class Tilewright(MLModel):
    """A compiled model in MLServer."""

    async def load(self) -> bool:
        """Load the artifact that the settings name."""
        self.compiled = tilewright.load(await get_model_uri(self._settings))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Run on the inputs by name, in a thread: the event loop goes on."""
        inputs = {one.name: NumpyCodec.decode_input(one) for one in payload.inputs}
        try:
            outputs = await asyncio.to_thread(self.compiled.run, inputs)
        except tilewright.errors.UserError as error:
            raise InferenceError(str(error)) from None
        named = zip((spec.name for spec in self.compiled.outputs), outputs)
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output(name, array) for name, array in named],
        )


if __name__ == "__main__":
    artifact = Path(sys.argv[1]).resolve()
    settings = {
        "name": artifact.stem,
        "implementation": "mlserver_runtime.Tilewright",
        "parameters": {"uri": str(artifact)},
    }
    (artifact.parent / "model-settings.json").write_text(json.dumps(settings))
    print(artifact.parent / "model-settings.json")
