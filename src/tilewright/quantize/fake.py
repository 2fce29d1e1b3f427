"""Fake quantization: floats that go through codes of a few bits, with gradients for the floats and for the range.

x = scale * codes(x),  codes(x) = round(clip(x / scale, least - zero, most - zero))        (floats that are whole)

The gradient of rounding is that of the straight-through estimator, so that of the scale is the one of "Learned Step
Size Quantization" (Esser et al., 2020): round(x / scale) - x / scale within the range, its end outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.quantize.grid import Grid
from tilewright.quantize.ranges import Array
from tilewright.relay.ir.expr import Constant, Expr, Var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.nn.straight_through import straight_through
from tilewright.relay.op.tensor import add, divide, maximum, minimum, multiply, round, subtract

#: A scale stays above this share of its first value: at zero it would have no gradient and no codes.
_LEAST_SHARE = np.float32(1 / 64)
#: Signs get gradients for values within this many of their first mean magnitudes: four deviations of normal ones.
_SIGN_WINDOW = 5.0


@dataclass(frozen=True)
class FakeQuantized:
    """A tensor on a grid whose range is trained, or follows what is seen.

    `scale` and `zero` are the first values, of a shape that broadcasts to the tensor's. A learned range has the
    parameters `NAME:scale`, a factor of the first scale, and `NAME:shift` of the zero point in units of all codes;
    another one has the inputs `NAME:scale` and `NAME:zero`. A zero point of zero stays: such data is never negative.
    """

    name: str
    grid: Grid
    scale: Array
    zero: Array
    learned: bool

    @property
    def shifts(self) -> bool:
        """True if the zero point changes."""
        return self.grid.kind == "asymmetric" and bool(self.zero.any())

    def initial(self) -> dict[str, Array]:
        """The first values of its parameters, or of its inputs if the range is not learned."""
        scale, zero = self.scale, self.zero
        if self.learned:
            scale, zero = np.ones_like(scale), np.zeros_like(zero)
        found = {f"{self.name}:scale": scale}
        return found | ({f"{self.name}:{'shift' if self.learned else 'zero'}": zero} if self.shifts else {})

    def variables(self) -> dict[str, Var]:
        """Variables for `initial`."""
        return {name: Var(name, TensorType(value.shape, "float32")) for name, value in self.initial().items()}

    def codes(self, x: Expr, variables: Mapping[str, Var]) -> tuple[Expr, Expr]:
        """(codes of `x` less their zero point, as floats; their scale)."""
        scale, zero = self._range(x, variables)
        grid = self.grid
        # signs do not depend on the scale, whose gradient is then that of the product alone
        ratio = divide(x, Constant(self.scale) if (grid.kind, grid.bits) == ("bipolar", 1) else scale)
        if grid.kind != "bipolar":
            low, high = (subtract(_number(end), zero) for end in (grid.least, grid.most))
            inside = maximum(minimum(ratio, high), low)
            return straight_through(inside, round(inside)), scale
        inside = _between(ratio, grid.least, grid.most)
        steps = round(multiply(add(inside, _number(grid.most)), _number(0.5)))
        window = inside if grid.bits > 1 else _between(ratio, -_SIGN_WINDOW, _SIGN_WINDOW)
        return straight_through(window, subtract(multiply(steps, _number(2)), _number(grid.most))), scale

    def _range(self, x: Expr, variables: Mapping[str, Var]) -> tuple[Expr, Expr]:
        given, zero = variables[f"{self.name}:scale"], Constant(self.zero)
        if not self.learned:
            return given, variables[f"{self.name}:zero"] if self.shifts else zero
        # LSQ: a number for many values has a large gradient; it is divided by the root of their count and of the codes
        many = np.prod(tensor_type_of(x).shape) / self.scale.size * self.grid.most
        share = straight_through(multiply(given, _number(many**-0.5)), given)
        scale = multiply(maximum(share, Constant(_LEAST_SHARE)), Constant(self.scale))
        if not self.shifts:
            return scale, zero
        moved = add(multiply(variables[f"{self.name}:shift"], _number(self.grid.most)), zero)
        exact = _between(moved, 0, self.grid.most)
        return scale, straight_through(exact, round(exact))

    def ends(self, values: Mapping[str, Array]) -> tuple[Array, Array]:
        """The range by the values of parameters or inputs."""
        scale, zero = self.trained(values)
        return (self.grid.least - zero) * scale, (self.grid.most - zero) * scale

    def of_range(self, scale: Array, zero: Array) -> dict[str, Array]:
        """The inputs of a range that is not learned."""
        values = {"scale": scale, "zero": zero} if self.shifts else {"scale": scale}
        return {f"{self.name}:{part}": np.reshape(value, self.scale.shape) for part, value in values.items()}

    def trained(self, values: Mapping[str, Array]) -> tuple[Array, Array]:
        """(scale, zero point) by the values of parameters or inputs, as the expressions compute them."""
        given = np.asarray(values[f"{self.name}:scale"], np.float32)
        if not self.learned:
            return given, np.asarray(values[f"{self.name}:zero"], np.float32) if self.shifts else self.zero
        scale = np.maximum(given, _LEAST_SHARE) * self.scale
        if not self.shifts:
            return scale, self.zero
        moved = values[f"{self.name}:shift"] * np.float32(self.grid.most) + self.zero
        return scale, np.rint(np.clip(moved, 0, self.grid.most)).astype(np.float32)


def _number(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


def _between(x: Expr, low: float, high: float) -> Expr:
    return maximum(minimum(x, _number(high)), _number(low))
