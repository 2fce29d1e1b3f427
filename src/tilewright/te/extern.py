"""Extern operations: tensors that a hand-written piece of loop IR makes, or a C or Python function that it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.te.operation import Operation, Read, as_shape
from tilewright.te.tag import current_tag
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr
from tilewright.tir.position import Position, caller
from tilewright.tir.stmt import Evaluate, Stmt


class ExternOp(Operation):
    """Tensors that the statement `body` writes to `output_buffers`, reading `input_buffers`: whole, in any order.

    `inputs` are the tensors behind the input buffers. The loops of `body` are its own: no stage is computed inside it.
    """

    __slots__ = ("body", "input_buffers", "inputs", "output_buffers")
    axis = ()
    reduce_axis = ()

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        input_buffers: Sequence[Buffer],
        output_buffers: Sequence[Buffer],
        body: Stmt,
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
        position: Position | None = None,
    ) -> None:
        self.name, self.tag, self.attrs, self.position = name, tag, dict(attrs or {}), position
        self.inputs = tuple(inputs)
        self.input_buffers, self.output_buffers = tuple(input_buffers), tuple(output_buffers)
        self.body = body
        several = len(self.output_buffers) > 1
        self.outputs = tuple(
            Tensor(self, i, b.shape, b.dtype, f"{name}.v{i}" if several else name)
            for i, b in enumerate(self.output_buffers)
        )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads."""
        return self.inputs

    def reads(self) -> list[Read]:
        """All of each input."""
        return [(t, (None,) * t.ndim) for t in self.inputs]

    def with_inputs(self, tensors: Mapping[Tensor, Tensor]) -> ExternOp:
        """The same statement on other tensors."""
        inputs = [tensors.get(t, t) for t in self.inputs]
        return ExternOp(
            self.name, inputs, self.input_buffers, self.output_buffers, self.body, self.tag, self.attrs, self.position
        )


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Stmt | Expr],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Sequence[Buffer] | None = None,
    out_buffers: Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A tensor of `shape` that the statement `fcompute(input buffers, output buffers)` computes.

    `shape` is one shape, or a list of shapes for several outputs (a list of tensors is returned then); `dtype` one
    type or a list, by default that of the inputs, which must agree. `fcompute` returns a statement (see
    `tir.ir_builder`) or a call such as `tir.call_extern("int32", "f", ins[0].access_ptr("r"), outs[0].access_ptr("w"))`
    or `tir.call_packed("name", ins[0], outs[0])`. The buffers are compact unless given. Raises TypeError for what
    does not fit.
    """
    several = isinstance(shape, list) and bool(shape) and isinstance(shape[0], (tuple, list))
    shapes = [as_shape(s) for s in (shape if several else [shape])]
    for tensor in inputs:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: the inputs of te.extern are tensors; got {tensor!r}")
    ins = _buffers(name, in_buffers, inputs)
    if out_buffers is None:
        dtypes = _dtypes(name, dtype, inputs, len(shapes))
        label = f"{name}.v{{}}" if several else name
        outs = [Buffer(label.format(i), s, d) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]
    else:
        outs = list(out_buffers)
    made = fcompute(ins, outs)
    body = Evaluate(made) if isinstance(made, Call) else made
    if not isinstance(body, Stmt):
        raise TypeError(f"{name}: the function of te.extern returns a statement or a call; got {made!r}")
    op = ExternOp(name, inputs, ins, outs, body, tag or current_tag(), attrs, caller())
    return list(op.outputs) if several else op.outputs[0]


def _buffers(name: str, given: Sequence[Buffer] | None, tensors: Sequence[Tensor]) -> list[Buffer]:
    if given is None:
        return [Buffer(t.name, t.shape, t.dtype) for t in tensors]
    if len(given) != len(tensors):
        raise TypeError(f"{name}: {len(tensors)} inputs need as many buffers; got {len(given)}")
    for buffer, tensor in zip(given, tensors, strict=True):
        if buffer.shape != tensor.shape or buffer.dtype is not tensor.dtype:
            raise TypeError(f"{name}: the buffer {buffer!r} does not fit the input {tensor!r}")
    return list(given)


def _dtypes(name: str, dtype: Any, inputs: Sequence[Tensor], count: int) -> list[str]:
    if dtype is None:
        found = {t.dtype for t in inputs}
        if len(found) != 1:
            raise TypeError(f"{name}: the inputs have {len(found)} element types, so pass te.extern a dtype=")
        return [found.pop()] * count
    dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * count
    if len(dtypes) != count:
        raise TypeError(f"{name}: {count} outputs and {len(dtypes)} element types")
    return dtypes
