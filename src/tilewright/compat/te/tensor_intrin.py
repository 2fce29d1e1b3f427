"""`te.decl_tensor_intrin` with the classic arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.compat.te.decl_buffer import decl_buffer
from tilewright.te.tensor_intrin import TensorIntrin


def decl_tensor_intrin(
    op: te.Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[te.Tensor, tir.Buffer] | None = None,
    scalar_params: Sequence[Any] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic for the computation `op`; `default_buffer_params` are arguments of `decl_buffer` for its buffers.

    `fcompute` may return calls in place of statements. With `scalar_params` it gets them as its third argument.
    """
    buffers = dict(binds or {})
    for tensor in (*op.input_tensors, *op.outputs):
        if tensor not in buffers:
            buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, tensor.name, **(default_buffer_params or {}))

    def statements(*given: Any) -> Any:
        made = fcompute(*given)
        return tuple(map(_statement, made)) if isinstance(made, list | tuple) else _statement(made)

    return te.decl_tensor_intrin(op, statements, name, buffers, tuple(scalar_params or ()))


def _statement(made: Any) -> Any:
    return tir.Evaluate(made) if isinstance(made, tir.Expr) else made
