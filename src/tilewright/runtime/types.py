"""Types of what users hand in and get back, for type checkers: `ArrayLike`, `Value`, `Array` and `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tilewright.runtime.memory import Array

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in the standard library from Python 3.12 on

__all__ = ["Array", "ArrayLike", "Result", "SupportsDLPack", "Value", "Weights"]


class SupportsDLPack(Protocol):
    """An array of any library that exchanges memory by DLPack: NumPy, torch, jax, `runtime.Tensor`."""

    def __dlpack__(self) -> object:
        """A capsule."""


#: A tensor that an input is given. Numbers and lists are converted to the input's dtype; all others must have it.
ArrayLike: TypeAlias = "SupportsDLPack | Buffer | np.generic | bool | int | float | Sequence[ArrayLike]"

#: Everything that an input of any model is given: of programs also text, sequences, and None for what may be absent.
Value: TypeAlias = "ArrayLike | str | Sequence[Value] | None"

#: One result: an array, of nearly all models. Checkers look up attributes in `Array`, and let a result be used as a
#: list (several results of a call, a sequence of a program) without a narrowing at each use: that a model returns an
#: array is known when it is compiled, not when the program that runs it is checked.
Result: TypeAlias = Array | Any

#: Constants of a model: one buffer, or an array each.
Weights: TypeAlias = "Array | Buffer | Sequence[Array]"
