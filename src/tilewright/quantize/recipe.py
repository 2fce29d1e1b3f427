"""A recipe: everything that quantization chose, in JSON; the same recipe makes the same model again, bit by bit.

Scales are float32 numbers, written such that reading them yields the same ones.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.ranges import CODES, Array, Codes, weight_codes
from tilewright.quantize.trained import TrainedLayer, as_entries, trained_layers

FORMAT, VERSION = "tilewright quantization recipe", 2


@dataclass(frozen=True)
class Choice:
    """The choice for one layer: codes of its operands, a scale a channel of its weights; `in_float` says why not."""

    operator: str
    tensors: tuple[str, ...]
    codes: tuple[Codes, ...]
    #: Empty for a layer without weights.
    weight_scales: tuple[float, ...] = ()
    in_float: str = ""
    #: What is added to each channel of the result: what integers lose of it on average.
    correction: tuple[float, ...] = ()
    #: What its data are divided by and its weights multiplied, by channel of the data.
    factors: tuple[float, ...] = ()
    #: Codes of the weights as int8 in base64; empty for those that are nearest.
    weight_codes: str = ""

    def codes_of(self, weight: Array) -> Array:
        """The codes int8 of weights [channels, ...], those that `factors` have changed."""
        if not self.weight_codes:
            return weight_codes(weight, np.asarray(self.weight_scales, np.float32))
        return np.frombuffer(base64.b64decode(self.weight_codes), np.int8).reshape(weight.shape)

    def divided(self, by: Any) -> Choice:
        """The choice for the layer whose results are divided by a number for each channel."""
        scales, correction = (
            as_float32(np.asarray(values, np.float32) / by) if values else ()
            for values in (self.weight_scales, self.correction)
        )
        return replace(self, weight_scales=scales, correction=correction)


def as_float32(values: Any) -> tuple[float, ...]:
    """Numbers as float32 has them: written as text they are read back as the same ones."""
    return tuple(float(value) for value in np.asarray(values, np.float32))


def recipe_text(heads: Mapping[str, Any], choices: Mapping[str, Any]) -> str:
    """A recipe as JSON: a line for each of `heads`, and one for each layer, whose choice is a dataclass."""
    layers = [f"  {json.dumps(name)}: {json.dumps(asdict(one))}" for name, one in choices.items()]
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in heads.items()]
    return ",\n".join(["{\n" + lines[0], *lines[1:], ' "layers": {\n' + ",\n".join(layers)]) + "\n }\n}\n"


@dataclass(frozen=True)
class Recipe:
    """The choices by layer, in order of computation; `settings` are those of the run, `losses` what it measured."""

    choices: Mapping[str, Choice]
    settings: Mapping[str, Any] = field(default_factory=dict)
    losses: Mapping[str, Any] = field(default_factory=dict)
    #: Layers that training has changed (`quantize_aware`).
    trained: Mapping[str, TrainedLayer] = field(default_factory=dict)

    @property
    def quantized(self) -> list[str]:
        """The names of layers in integers."""
        return [name for name, choice in self.choices.items() if not choice.in_float]

    def text(self) -> str:
        """The recipe as JSON, a line a layer."""
        heads = {"format": FORMAT, "version": VERSION, "settings": dict(self.settings), "losses": dict(self.losses)}
        if self.trained:
            heads["trained"] = as_entries(self.trained)
        return recipe_text(heads, self.choices)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe to a file."""
        Path(path).write_text(self.text(), encoding="utf-8")


def read_recipe(path: str | os.PathLike[str]) -> Recipe:
    """The recipe in a file. Raises `InputError` where there is none, or one that is malformed."""
    try:
        return parse_recipe(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the recipe {path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no recipe of `tilewright quantize`: {error}") from None


def parse_recipe(text: str) -> Recipe:
    """The recipe of `Recipe.text`. Raises ValueError, KeyError, TypeError or AttributeError where it is none."""
    whole = json.loads(text)
    if (whole["format"], whole["version"]) != (FORMAT, VERSION):
        raise ValueError(f"its format is {whole['format']!r} {whole['version']}, not {FORMAT!r} {VERSION}")
    choices = {name: _choice(entry) for name, entry in whole["layers"].items()}
    return Recipe(choices, whole["settings"], whole["losses"], trained_layers(whole.get("trained", {})))


def _choice(entry: Mapping[str, Any]) -> Choice:
    codes = tuple(Codes(float(one["scale"]), int(one["zero_point"]), one["dtype"]) for one in entry["codes"])
    if any(one.dtype not in CODES for one in codes):
        raise ValueError(f"codes are {' or '.join(CODES)}, not {', '.join(one.dtype for one in codes)!r}")
    scales = tuple(float(scale) for scale in entry["weight_scales"])
    if any(not scale > 0.0 for scale in (*scales, *(one.scale for one in codes))):
        raise ValueError("scales are above zero")
    correction = tuple(float(value) for value in entry["correction"])
    factors = tuple(float(value) for value in entry["factors"])
    made = Choice(entry["operator"], tuple(entry["tensors"]), codes, scales, entry["in_float"], correction, factors)
    return replace(made, weight_codes=str(entry.get("weight_codes", "")))
