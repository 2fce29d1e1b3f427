"""Schedules, tensors and operations as JSON: objects of this package's classes, and of no others, in one field.

{"tilewright": "te", "pickle": "gASV…"}
"""

from __future__ import annotations

import base64
import io
import json
import pickle
from typing import Any

from tilewright import te
from tilewright.errors import InputError

Saved = te.Schedule | te.Stage | te.Tensor | te.Operation | te.IterVar
#: The packages whose classes are read.
_PACKAGES = ("tilewright.te.", "tilewright.tir.", "tilewright.support.dtype.")


def tensor_json(node: Saved) -> str:
    """The text of a schedule, tensor, operation or axis, with all that it is made of."""
    return json.dumps({"tilewright": "te", "pickle": base64.b64encode(pickle.dumps(node)).decode()})


def is_tensor_json(text: str) -> bool:
    """True for a text of `tensor_json`."""
    return text.startswith('{"tilewright": "te"')


def read_tensor_json(text: str) -> Any:
    """The object of a text of `tensor_json`. Raises `InputError` for a damaged one, or one that names other classes."""
    try:
        return _Reader(io.BytesIO(base64.b64decode(json.loads(text)["pickle"]))).load()
    except InputError:
        raise
    except Exception as error:  # damaged pickles raise all kinds
        raise InputError(f"load_json: the text holds no schedule or tensor: {error!r}") from None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if f"{module}.".startswith(_PACKAGES) else None
        if not isinstance(found, type) or found.__module__ != module:
            raise InputError(f"load_json: a schedule or tensor is not made of {module}.{name}")
        return found
