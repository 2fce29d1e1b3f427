"""Layers around others: applied to each step, in both directions, or with their weights normalized."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import cast, concatenate, dtype_of, like, product, rank_of, reshape, shape_of
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.frontend.keras.tree import flatten, map_tensors
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("TimeDistributed", passes_mask=True)
def convert_time_distributed(layer: Layer, inputs: Any, mask: Any = None) -> Any:
    """Steps are samples of their own."""
    batch, steps = shape_of(flatten([inputs])[0])[:2]

    def folded(value: Expr) -> Expr:
        return reshape(value, (product((batch, steps)), *shape_of(value)[2:]))

    def unfolded(value: Expr) -> Expr:
        return reshape(value, (batch, steps, *shape_of(value)[1:]))

    inner = layer.inside(layer["layer"], "layer")
    more = {}
    if isinstance(mask, Expr) and rank_of(mask) > 2:
        more["mask"] = folded(mask)
    return map_tensors(inner(map_tensors(inputs, folded), **more), unfolded)


@converts("Bidirectional")
def convert_bidirectional(layer: Layer, inputs: Expr, initial_state: Any = None, mask: Any = None) -> Any:
    """A recurrent layer and its twin that runs backwards, whose sequences are turned around."""
    described = layer["layer"]
    _, config, _ = layer.importer.described(described, layer.label)
    own = str(config.get("name", ""))
    plain = own.removeprefix("forward_")
    ahead = layer.inside(
        {**described, "config": {**config, "go_backwards": False}}, "forward_layer", f"forward_{plain}"
    )
    other = layer.get("backward_layer")
    turned = {**described, "config": {**config, "name": f"backward_{plain}", "go_backwards": True}}
    back = layer.inside(turned if other is None else other, "backward_layer", _name_of(other, f"backward_{plain}"))
    states = list(initial_state) if isinstance(initial_state, list | tuple) else []
    half = len(states) // 2
    results = []
    for one, given in ((ahead, states[:half]), (back, states[half:])):
        more: dict[str, Any] = {"mask": mask} if isinstance(mask, Expr) else {}
        if given:
            more["initial_state"] = given
        found = one(inputs, **more)
        results.append(list(found) if isinstance(found, list | tuple) else [found])
    if not all(isinstance(leaf, Expr) for leaf in flatten(results)):
        return results
    sequences = bool(config.get("return_sequences"))
    y, y_back = results[0][0], results[1][0]
    if sequences:
        y_back = op.reverse(y_back, axis=1)
        layer.give_mask(mask)
    made = _joined(layer, y, y_back)
    if not config.get("return_state"):
        return made
    kept = [*results[0][1:], *results[1][1:]]
    return [*made, *kept] if isinstance(made, list) else [made, *kept]


def _name_of(described: Any, default: str) -> str:
    config = described.get("config") if isinstance(described, dict) else None
    return str(config.get("name", default)) if isinstance(config, dict) else default


def _joined(layer: Layer, y: Expr, other: Expr) -> Any:
    mode = layer.get("merge_mode", "concat")
    if mode is None:
        return [y, other]
    if mode == "concat":
        return concatenate([y, other], rank_of(y) - 1)
    if mode == "mul":
        return op.multiply(y, other)
    if mode not in ("sum", "ave"):
        layer.wrong(f"merge_mode {mode!r}; there are concat, sum, mul, ave and null")
    total = op.add(y, other)
    return total if mode == "sum" else op.divide(total, like(2, total))


@converts("SpectralNormalization")
def convert_spectral_normalization(layer: Layer, inputs: Expr) -> Any:
    """In inference the kernel is as it was left by training."""
    made = layer.inside(layer["layer"], "layer")(inputs)
    return map_tensors(made, lambda value: cast(value, dtype_of(inputs)))
