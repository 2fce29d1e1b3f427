"""Patterns of integer graphs that are layers of VTA, and the layers read from their matches.

A piece is a core (convolution, dense layer, sum of two tensors, sum over an image), steps on its int32 with constants,
bounds, and a cast to int8:   cast(clip(right_shift(add(CORE, bias), by), low, high), "int8")

A convolution or dense layer by itself is one too: its int32 go back to the host byte by byte, which rescales them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.simplify.make import is_call
from tilewright.vta.schedule.epilogue import Step

_STEPS = {"add": "ADD", "multiply": "MUL", "right_shift": "SHR"}
_LEAST, _MOST = -(1 << 15), (1 << 15) - 1


def _stepped(core: DFPattern) -> DFPattern:
    """The pattern of a core and its optional steps."""
    for name in ("add", "multiply", "add", "right_shift"):
        core = core.optional(lambda before, name=name: is_op(name)(before, is_constant()))  # type: ignore[misc]
    return is_op("cast")(is_op("clip")(core)).has_attr({"dtype": "int8"})


def _wide() -> DFPattern:
    return is_op("cast")(wildcard()).has_attr({"dtype": "int32"})


def _shifted() -> DFPattern:
    return _wide().optional(lambda before: is_op("left_shift")(before, is_constant()))


#: Composite functions by name.
PATTERNS: dict[str, DFPattern] = {
    "vta.conv2d": _stepped(is_op("nn.conv2d")(wildcard(), is_constant()).has_attr({"out_dtype": "int32"})),
    "vta.dense": _stepped(is_op("nn.dense")(wildcard(), is_constant()).has_attr({"out_dtype": "int32"})),
    "vta.add": _stepped(is_op("add")(_shifted(), _shifted())),
    "vta.sum": _stepped(is_op("sum")(_wide())),
    "vta.wide_conv2d": is_op("nn.conv2d")(wildcard(), is_constant()).has_attr({"out_dtype": "int32"}),
    "vta.wide_dense": is_op("nn.dense")(wildcard(), is_constant()).has_attr({"out_dtype": "int32"}),
}


@dataclass(frozen=True)
class Piece:
    """A matched piece: its core, what the core reads, and the steps on its sums, low and high bound among them.

    Without steps the sums themselves are the result, int32.
    """

    core: Call
    inputs: tuple[Expr, ...]
    shifts: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def immediates_only(self) -> bool:
        """True if no step has a vector."""
        return all(isinstance(step.right, int) for step in self.steps)


def read_piece(root: Expr, constants: Mapping[Var, Constant] | None = None) -> Piece | None:
    """The piece whose cast is `root`; None where a constant does not fit. `constants` are those behind variables."""
    known = constants or {}

    def constant(expr: Expr) -> np.ndarray | None:
        found = known.get(expr) if isinstance(expr, Var) else expr
        return np.asarray(found.data) if isinstance(found, Constant) else None

    if is_call(root, "nn.conv2d", "nn.dense"):
        assert isinstance(root, Call)
        return Piece(root, (root.args[0],), (0,), ())
    assert isinstance(root, Call) and isinstance(root.args[0], Call)
    bounds = root.args[0]
    steps = [Step("MIN", int(bounds.attrs.a_max)), Step("MAX", int(bounds.attrs.a_min))]  # from the result backwards
    node = bounds.args[0]
    while is_call(node, *_STEPS):
        assert isinstance(node, Call)
        value = constant(node.args[1])
        if value is None:
            break
        right = _right(value, tensor_type_of(node).shape)
        if right is None:
            return None
        steps.append(Step(_STEPS[node.op.name], right))  # type: ignore[union-attr]
        node = node.args[0]
    assert isinstance(node, Call)
    if is_call(node, "nn.conv2d", "nn.dense"):
        return Piece(node, (node.args[0],), (0,), tuple(reversed(steps)))
    inputs, shifts = [], []
    for arg in node.args:
        shift = 0
        if is_call(arg, "left_shift"):
            by = constant(arg.args[1])  # type: ignore[attr-defined]
            if by is None or by.size != 1 or not 0 <= int(by.reshape(())) <= 31:
                return None
            shift, arg = int(by.reshape(())), arg.args[0]  # type: ignore[attr-defined]
        assert isinstance(arg, Call), "a cast, by the pattern"
        inputs.append(arg.args[0])
        shifts.append(shift)
    return Piece(node, tuple(inputs), tuple(shifts), tuple(reversed(steps)))


def _right(value: np.ndarray, shape: tuple[object, ...]) -> int | np.ndarray | None:
    """A constant as an immediate or a vector over channels; None if it is neither."""
    if value.size == 1:
        number = int(value.reshape(()))
        return number if _LEAST <= number <= _MOST else np.full(int(str(shape[1])), number, np.int32)
    full = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    per_channel = full.shape[1] == shape[1] and full.size == full.shape[1]
    return full.ravel().astype(np.int32) if per_channel else None


def weight_of(piece: Piece, constants: Mapping[Var, Constant] | None = None) -> np.ndarray:
    """The constant weight of a convolution or dense layer, [outputs, inputs, rows, columns]."""
    found = piece.core.args[1]
    found = (constants or {})[found] if isinstance(found, Var) else found
    assert isinstance(found, Constant)
    weight = np.asarray(found.data)
    return weight.reshape(*weight.shape, *(1,) * (4 - weight.ndim))


def constants_of(call: Call) -> tuple[Function, dict[Var, Constant]]:
    """The composite function of a call, and its parameters that are constants."""
    function = call.op
    assert isinstance(function, Function)
    return function, {p: a for p, a in zip(function.params, call.args) if isinstance(a, Constant)}
