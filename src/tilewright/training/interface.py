"""The interface of a training step: the names by which its values are kept between calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interface:
    """The names of a step's inputs, of the parameters and the state that it changes, and how many outputs it has."""

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    state: tuple[str, ...]
    num_outputs: int
