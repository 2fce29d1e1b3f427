"""Declared tensor intrinsics: a small tensor computation and the statements that carry it out on this target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.tensor import Tensor
from tilewright.te.tensor_call import TensorCall
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import Stmt


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """An intrinsic that computes `op` on `input_buffers` (in the order of `inputs`) into `output_buffers`.

    `scalars` are variables in the computation that are other values at each use. `body` computes it whole; for a
    reduction `reset` starts the outputs and `update` combines one more piece into them.
    """

    name: str
    op: ComputeOp
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    body: Stmt | None
    reset: Stmt | None
    update: Stmt | None
    scalars: tuple[Var, ...] = ()

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of the inputs, then of the outputs."""
        return (*self.input_buffers, *self.output_buffers)

    @property
    def scalar_params(self) -> tuple[Var, ...]:
        """`scalars`, in the classic spelling."""
        return self.scalars

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that `op` reads."""
        return tuple(self.op.input_tensors)

    @property
    def reduce_init(self) -> Stmt | None:
        """`reset`, in the classic spelling."""
        return self.reset

    @property
    def reduce_update(self) -> Stmt | None:
        """`update`, in the classic spelling."""
        return self.update

    def __call__(self, *regions: Any, reduce_axis: Any = None) -> TensorCall:
        """The intrinsic on regions of tensors, within `te.compute`; `reduce_axis` goes on with its reduction.

        Expressions and numbers among `regions` are its scalar parameters, in order.
        """
        return TensorCall(self, regions, reduce_axis)

    def __repr__(self) -> str:
        return f"tensor intrinsic {self.name}"


def decl_buffer(
    shape: Sequence[Any],
    dtype: str = "float32",
    name: str = "buffer",
    scope: str = "global",
    strides: Sequence[Any] | None = None,
) -> Buffer:
    """A buffer to bind a tensor of an intrinsic to; variables among `strides` take the strides found at its use."""
    return Buffer(name, shape, dtype, scope, strides)


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Var] = (),
) -> TensorIntrin:
    """An intrinsic for the computation `op`, of constant shape.

    `fcompute(inputs, outputs)` gets one buffer per tensor (from `binds`, else compact ones) and returns the statement
    that computes `op` whole, or for a reduction a tuple (body, reset, update) in which each may be None. With
    `scalar_params`, variables in the computation, it is `fcompute(inputs, outputs, scalar_params)`.
    Raises ScheduleError where the declaration does not fit.
    """
    if not isinstance(op, ComputeOp):
        raise ScheduleError(f"decl_tensor_intrin {name}: needs the operation of a te.compute; got {op!r}")
    given = dict(binds or {})

    def buffer(tensor: Tensor) -> Buffer:
        return given.get(tensor) or Buffer(tensor.name, tensor.shape, tensor.dtype)

    inputs, outputs = [buffer(t) for t in op.input_tensors], [buffer(t) for t in op.outputs]
    made = fcompute(inputs, outputs, *([list(scalar_params)] if scalar_params else []))
    parts = tuple(made) if isinstance(made, (tuple, list)) else (made, None, None)
    if len(parts) != 3 or any(p is not None and not isinstance(p, Stmt) for p in parts):
        raise ScheduleError(
            f"tensor intrinsic {name}: fcompute returns a statement or (body, reset, update); got {made!r}"
        )
    return TensorIntrin(name, op, tuple(inputs), tuple(outputs), *parts, tuple(scalar_params))
