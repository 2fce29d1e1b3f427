"""The data of a constant: a NumPy array that also answers as the tensors of the runtime do, by `numpy()`."""

from __future__ import annotations

from typing import Any

import numpy as np


class ConstantData(np.ndarray[Any, Any]):
    """A view of an array. What is computed of it is a plain array or number, so nothing else becomes of this class."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The array itself."""
        return self.view(np.ndarray)

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """The array itself, in the oldest spelling."""
        return self.numpy()

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain
