"""A model of Triton's Python back end: `model.tw` beside this file, each request of Triton run by it.

A repository of Triton is NAME/config.pbtxt with `backend: "python"`, NAME/1/model.py (this file) and NAME/1/model.tw.
Requests that Triton sends together are run together where the model takes any batch.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import triton_python_backend_utils as pb

import tilewright


class TritonPythonModel:
    """The class that Triton loads, calls and drops."""

    def initialize(self, args: dict[str, Any]) -> None:
        """Load the artifact beside this file; threads are Triton's instances."""
        folder = os.path.dirname(os.path.abspath(__file__))
        self.model = tilewright.load(os.path.join(folder, "model.tw"), threads=1)
        self.joins = all(isinstance(spec.shape[0], str) for spec in (*self.model.inputs, *self.model.outputs))

    def execute(self, requests: list[Any]) -> list[Any]:
        """A response for each request, in order."""
        given = [
            {spec.name: pb.get_input_tensor_by_name(request, spec.name).as_numpy() for spec in self.model.inputs}
            for request in requests
        ]
        if not self.joins or len(given) == 1:
            return [self.answer(inputs) for inputs in given]
        try:
            joined = {spec.name: np.concatenate([one[spec.name] for one in given]) for spec in self.model.inputs}
            ends = np.cumsum([len(next(iter(one.values()))) for one in given])[:-1]
            parts = zip(*(np.split(output, ends) for output in self.model.run(joined)))
            return [self.response(outputs) for outputs in parts]
        except (ValueError, tilewright.errors.UserError):  # one of them is at fault: each by itself
            return [self.answer(inputs) for inputs in given]

    def answer(self, inputs: dict[str, np.ndarray]) -> Any:
        """The response to one request, which may be its error."""
        try:
            return self.response(self.model.run(inputs))
        except tilewright.errors.UserError as error:
            return pb.InferenceResponse(error=pb.TritonError(str(error)))

    def response(self, outputs: Any) -> Any:
        """A response with tensors."""
        named = zip((spec.name for spec in self.model.outputs), outputs)
        return pb.InferenceResponse(output_tensors=[pb.Tensor(name, array) for name, array in named])

    def finalize(self) -> None:
        """Let the model go."""
        del self.model
