"""Recurrent layers over a whole sequence: `nn.lstm`, `nn.gru` and `nn.rnn`, without the product with the inputs.

That product does not depend on the state, so it is a `nn.dense` over all steps before the layer; what an
operator here takes are the gates' inputs. The results are those of ONNX: Y [T, D, B, H], Y_h [D, B, H] and, of an
LSTM, Y_c [D, B, H].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import Dim, TensorType, TupleType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import Types, call, require, require_float, require_same_dtype, same_dims, tensors
from tilewright.runtime.host_ops.recurrent import (
    ACTIVATIONS,
    DEFAULT_ACTIVATIONS,
    DEFAULT_ALPHA,
    DEFAULT_BETA,
    DIRECTIONS,
    GATES,
)
from tilewright.tir.dot_product import GROUP
from tilewright.topi.recurrent import Activation, Recurrence
from tilewright.topi.reference import recurrent as ref


def inputs_by_name(kind: str, attrs: Attrs, values: Sequence[Any]) -> dict[str, Any]:
    """The inputs of a call by name."""
    states = ("hidden", "cell") if kind == "lstm" else ("hidden",)
    names = ("gates", "weight", *states, *attrs["optional"])
    require(len(values) == len(names), f"{len(values)} inputs are given for {', '.join(names)}")
    return dict(zip(names, values, strict=True))


def recurrence_of(kind: str, attrs: Attrs) -> Recurrence:
    """The options of a call, checked."""
    direction = attrs["direction"]
    require(direction in DIRECTIONS, f"direction {direction!r}; there are {', '.join(DIRECTIONS)}")
    each, count = len(DEFAULT_ACTIVATIONS[kind]), len(DIRECTIONS[direction])
    names, alphas, betas = attrs["activations"], attrs["activation_alpha"], attrs["activation_beta"]
    fits = len(names) == len(alphas) == len(betas) == each * count
    require(fits, f"{each * count} activations with as many alphas and betas are needed, not {names}")
    for name in names:
        require(name in ACTIVATIONS, f"activation {name!r}; there are {', '.join(ACTIVATIONS)}")
    functions = [Activation(*values) for values in zip(names, alphas, betas, strict=True)]
    return Recurrence(
        kind,
        DIRECTIONS[direction],
        tuple(tuple(functions[d * each : (d + 1) * each]) for d in range(count)),
        attrs["clip"],
        attrs["input_forget"],
        attrs["linear_before_reset"],
        attrs["zero_state"],
        attrs["codes"],
    )


def _type_rule(kind: str, types: Types, attrs: Attrs) -> Type:
    given = inputs_by_name(kind, attrs, tensors(types))
    gates, weight, hidden = given["gates"], given["weight"], given["hidden"]
    require_float(gates)
    of_bytes = "scale" in given
    others = ("lengths", *(("weight", "columns", "zero") if of_bytes else ()))
    require_same_dtype(*[t for name, t in given.items() if name not in others])
    directions, count = len(recurrence_of(kind, attrs).reverse), GATES[kind]
    require(gates.ndim == hidden.ndim == 3, f"gates {gates.shape} must be [T, B, D * {count} * H], states [D, B, H]")
    steps, batch, width = gates.shape
    size = hidden.shape[2]
    require(
        width == directions * count * size, f"{directions} directions of {size} units need {count} gates, not {width}"
    )
    shapes: dict[str, tuple[Any, ...]] = {"hidden": (directions, batch, size), "cell": (directions, batch, size)}
    shapes |= {"peephole": (directions, 3 * size), "bias": (directions, size), "lengths": (batch,)}
    shapes |= dict.fromkeys(("scale", "columns", "zero"), (directions, count * size))
    for name, shape in shapes.items():
        require(name not in given or same_dims(given[name].shape, shape), f"{name} has not the shape {shape}")
    if weight.ndim == 3:
        require(weight.shape == (directions, count * size, size), f"weights {weight.shape} do not fit {size} units")
    else:
        blocks, block = (weight.shape[1], weight.shape[4]) if weight.ndim >= 5 else (0, 0)
        inputs = (-(-size // GROUP), count, block, GROUP) if of_bytes else (size, count, block)
        fits = weight.shape == (directions, blocks, *inputs) and blocks * block >= size
        require(fits, f"packed weights {weight.shape} do not fit {size} units")
    for name in ("lengths", "columns", "zero"):
        require(name not in given or given[name].dtype == "int32", f"{name} must be int32")
    if of_bytes:
        require(
            weight.dtype == "int8" and "columns" in given, "weights with a scale must be int8 and have their columns"
        )
    state = TensorType((directions, batch, size), gates.dtype)
    sequence = TensorType((steps, directions, batch, size), gates.dtype)
    return TupleType([sequence, state, state] if kind == "lstm" else [sequence, state])


def _equal_sizes(kind: str, call: Call, types: Sequence[TensorType]) -> Iterator[tuple[Dim, Dim]]:
    """The batch of the gates, and those of the states and lengths."""
    given = inputs_by_name(kind, call.attrs, types)
    batch = given["gates"].shape[1]
    for name, axis in (("hidden", 1), ("cell", 1), ("lengths", 0)):
        if name in given:
            yield batch, given[name].shape[axis]


_ATTRIBUTES = {
    "optional": attr.tuple_of(attr.text(), ()),
    "direction": attr.text("forward"),
    "activations": attr.tuple_of(attr.text()),
    "activation_alpha": attr.tuple_of(attr.number()),
    "activation_beta": attr.tuple_of(attr.number()),
    "clip": attr.number(0.0),
    "input_forget": attr.flag(False),
    "linear_before_reset": attr.flag(False),
    "zero_state": attr.flag(False),
    "codes": attr.text("uint8"),
}


def _register(kind: str) -> None:
    def compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
        return topi.nn.recurrent(recurrence=recurrence_of(kind, attrs), **inputs_by_name(kind, attrs, inputs))

    register(
        f"nn.{kind}",
        num_inputs=-1,
        type_rule=lambda types, attrs: _type_rule(kind, types, attrs),
        compute=compute,
        pattern=OpPattern.OPAQUE,
        attributes=_ATTRIBUTES,
        flops=work.recurrent,
        equal_sizes=lambda call, types: _equal_sizes(kind, call, types),
        reference=lambda attrs, *inputs: ref.recurrent(
            recurrence=recurrence_of(kind, attrs), **inputs_by_name(kind, attrs, inputs)
        ),
    )


for _kind in GATES:
    _register(_kind)


def _call(
    kind: str, inputs: Sequence[Expr], optional: dict[str, Expr | None], direction: str, activations: Any, **attrs: Any
) -> Call:
    """A call with the activations spelled out, one for each direction and gate function."""
    given = {name: value for name, value in optional.items() if value is not None}
    plain = [Activation(n, DEFAULT_ALPHA.get(n, 0.0), DEFAULT_BETA.get(n, 0.0)) for n in DEFAULT_ACTIVATIONS[kind]]
    chosen = list(activations) if activations else plain * len(DIRECTIONS.get(direction, (False,)))
    return call(
        f"nn.{kind}",
        *inputs,
        *given.values(),
        optional=tuple(given),
        direction=direction,
        activations=tuple(a.name for a in chosen),
        activation_alpha=tuple(float(a.alpha) for a in chosen),
        activation_beta=tuple(float(a.beta) for a in chosen),
        **attrs,
    )


def lstm(
    gates: Expr,
    weight: Expr,
    hidden: Expr,
    cell: Expr,
    peephole: Expr | None = None,
    lengths: Expr | None = None,
    direction: str = "forward",
    activations: Sequence[Activation] = (),
    clip: float = 0.0,
    input_forget: bool = False,
    scale: Expr | None = None,
    columns: Expr | None = None,
    zero: Expr | None = None,
) -> Call:
    """An LSTM: (Y [T, D, B, H], Y_h [D, B, H], Y_c [D, B, H]); gates in the order input, output, forget, candidate.

    `gates` [T, B, D * 4 * H] are x W^T and the biases, `weight` the recurrent weights [D, 4 * H, H], `hidden` and
    `cell` [D, B, H] the first states, `peephole` [D, 3 * H], `lengths` [B] the steps of each sequence (int32).
    `activations` are three functions for each direction. Weights of int8 have a `scale` [D, 4 * H], the sums `columns`
    of the weights of each unit less their zero point, and a `zero` point where it is not zero (both int32); in each
    step the state is then rounded to bytes of its own range (`topi.nn.quantized_state`).
    """
    optional = {"peephole": peephole, "lengths": lengths, "scale": scale, "columns": columns, "zero": zero}
    inputs = (gates, weight, hidden, cell)
    return _call("lstm", inputs, optional, direction, activations, clip=float(clip), input_forget=bool(input_forget))


def gru(
    gates: Expr,
    weight: Expr,
    hidden: Expr,
    bias: Expr | None = None,
    lengths: Expr | None = None,
    direction: str = "forward",
    activations: Sequence[Activation] = (),
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> Call:
    """A GRU: (Y [T, D, B, H], Y_h [D, B, H]); gates in the order update, reset, candidate.

    `gates` [T, B, D * 3 * H] and `weight` [D, 3 * H, H] as of `lstm`. With `linear_before_reset` the reset gate acts on
    the candidate's product plus `bias` [D, H], else on the state before the product.
    """
    optional = {"bias": bias, "lengths": lengths}
    late = bool(linear_before_reset)
    inputs = (gates, weight, hidden)
    return _call("gru", inputs, optional, direction, activations, clip=float(clip), linear_before_reset=late)


def rnn(
    gates: Expr,
    weight: Expr,
    hidden: Expr,
    lengths: Expr | None = None,
    direction: str = "forward",
    activations: Sequence[Activation] = (),
    clip: float = 0.0,
) -> Call:
    """A plain recurrent layer: (Y [T, D, B, H], Y_h [D, B, H]) of `gates` [T, B, D * H] and `weight` [D, H, H]."""
    inputs = (gates, weight, hidden)
    return _call("rnn", inputs, {"lengths": lengths}, direction, activations, clip=float(clip))
