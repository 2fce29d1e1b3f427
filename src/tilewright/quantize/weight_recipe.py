"""A recipe of weight-only quantization in JSON: bits and blocks of each layer; the same recipe makes the same codes.

Codes that depend on data are kept in the recipe, compressed; others are found again from the float weights, which a
digest of each layer identifies.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.recipe import recipe_text
from tilewright.quantize.weight_codes import BITS, BLOCKS, CodedWeights, coded_weights

Array = np.ndarray[Any, Any]
FORMAT, VERSION = "tilewright weight-only recipe", 1


@dataclass(frozen=True)
class WeightChoice:
    """The choice for one layer; `in_float` says why it keeps floats. `codes` stand here where they came of data."""

    operator: str
    bits: int
    block: int
    symmetric: bool
    digest: str
    in_float: str = ""
    #: Codes, scales and zero points.
    codes: tuple[str, ...] = ()

    def weights(self, name: str, weight: Array) -> CodedWeights:
        """The codes of the layer `name`. Raises `InputError` where the recipe was made of another `weight`."""
        if self.digest != digest(weight):
            raise InputError(f"the recipe has other weights for the layer {name!r}; it is another model's recipe")
        if not self.codes:
            return coded_weights(weight, self.bits, self.block, self.symmetric)
        rows, depth = weight.shape
        blocks = -(-depth // self.block)
        codes, scales, *zeros = (zlib.decompress(base64.b64decode(one)) for one in self.codes)
        return CodedWeights(
            np.frombuffer(codes, np.uint8).reshape(rows, blocks, self.block),
            np.frombuffer(scales, "<f4").reshape(rows, blocks).astype(np.float32),
            np.frombuffer(zeros[0], np.uint8).reshape(rows, blocks) if zeros else None, self.bits, depth,
        )  # fmt: skip


def kept_codes(coded: CodedWeights) -> tuple[str, ...]:
    """Codes, scales and zero points as text."""
    parts = [coded.codes, coded.scales.astype("<f4"), *([] if coded.zeros is None else [coded.zeros])]
    return tuple(base64.b64encode(zlib.compress(np.ascontiguousarray(one).tobytes())).decode() for one in parts)


def digest(weight: Array) -> str:
    """The beginning of the hash of float weights."""
    return hashlib.sha256(np.ascontiguousarray(weight, "<f4").tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class WeightRecipe:
    """The choices by layer, in order of computation; `settings` are those of the run, `losses` what it measured."""

    choices: Mapping[str, WeightChoice]
    settings: Mapping[str, Any] = field(default_factory=dict)
    losses: Mapping[str, Any] = field(default_factory=dict)

    @property
    def quantized(self) -> list[str]:
        """The names of layers with codes."""
        return [name for name, choice in self.choices.items() if not choice.in_float]

    def text(self) -> str:
        """The recipe as JSON, a line a layer."""
        heads = {"format": FORMAT, "version": VERSION, "settings": dict(self.settings), "losses": dict(self.losses)}
        return recipe_text(heads, self.choices)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe to a file."""
        Path(path).write_text(self.text(), encoding="utf-8")


def read_weight_recipe(path: str | os.PathLike[str]) -> WeightRecipe | None:
    """The recipe in a file; None for a file of another kind. Raises `InputError` for a malformed recipe."""
    try:
        whole = json.loads(Path(path).read_text(encoding="utf-8"))
        if whole["format"] != FORMAT:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        if whole["version"] != VERSION:
            raise ValueError(f"its version is {whole['version']}, not {VERSION}")
        choices = {name: _choice(entry) for name, entry in whole["layers"].items()}
        return WeightRecipe(choices, whole["settings"], whole["losses"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no recipe of `tilewright quantize`: {error}") from None


def _choice(entry: Mapping[str, Any]) -> WeightChoice:
    made = WeightChoice(**{**entry, "codes": tuple(entry["codes"])})
    if made.bits not in BITS or made.block not in BLOCKS:
        raise ValueError(f"codes of {made.bits} bits in blocks of {made.block}")
    return made
