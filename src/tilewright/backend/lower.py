"""One fused Relay function to one kernel of the loop IR: computes, schedule, lowering.

fn (%x, %w, %b) { nn.relu(nn.bias_add(nn.conv2d(%x, %w), %b)) }    ->    def fused_conv2d_bias_add_relu(x, w, b, out)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te
from tilewright.backend.backend import Backend
from tilewright.errors import InternalError, TypeMismatchError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.symbolic import size_vars
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.visitor import calls, post_order
from tilewright.relay.transform.memory.in_place import IN_PLACE
from tilewright.tir.op import const
from tilewright.tir.position import Position
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.narrow import stored_constant
from tilewright.topi.schedule.sketch.config import is_sketch


@dataclass(frozen=True)
class FusedCompute:
    """The tensor expressions of a fused function: one placeholder per parameter tensor, one tensor per output."""

    inputs: list[te.Tensor]
    outputs: list[te.Tensor]


def to_compute(function: Function) -> FusedCompute:
    """The tensor-expression graph of a fused function, each operator's `compute` applied to its inputs' tensors."""
    tensors: dict[Expr, list[te.Tensor]] = {}
    inputs: list[te.Tensor] = []
    for param in function.params:
        leaves = tensor_types(param.checked_type)
        names = [param.name] if len(leaves) == 1 else [f"{param.name}_{i}" for i in range(len(leaves))]
        tensors[param] = [te.placeholder(t.shape, t.dtype, n) for t, n in zip(leaves, names, strict=True)]
        inputs += tensors[param]
    outputs: list[te.Tensor] = []
    for tensor in compute_graph(function.body, tensors):
        outputs.append(_copy(tensor) if isinstance(tensor.op, te.PlaceholderOp) or tensor in outputs else tensor)
    return FusedCompute(inputs, outputs)


def compute_graph(body: Expr, tensors: dict[Expr, list[te.Tensor]]) -> list[te.Tensor]:
    """The tensors of `body`, typed operator calls; `tensors` has those of its variables, and all afterwards."""
    for node in post_order(body):
        if node not in tensors:
            tensors[node] = _compute_node(node, tensors)
    return tensors[body]


def _compute_node(node: Expr, tensors: dict[Expr, list[te.Tensor]]) -> list[te.Tensor]:
    if isinstance(node, Constant):
        return [_scalar(node)]
    if isinstance(node, Tuple):
        return [tensor for field in node.fields for tensor in tensors[field]]
    if isinstance(node, TupleGetItem):
        return [tensors[node.tuple_value][node.index]]
    if isinstance(node, Call) and isinstance(node.op, Op):
        if node.op.compute is None:
            raise InternalError(f"the operator {node.op.name} has no compute and cannot be lowered")
        arguments = [tensor for arg in node.args for tensor in tensors[arg]]
        computed = node.op.compute(node.attrs, arguments, node.checked_type)
        made = _tensors(node.op, computed, len(tensor_types(node.checked_type)))
        _note_source(made, arguments, node.span)
        return made
    raise InternalError(f"a fused function may not hold a {type(node).__name__}")


def _tensors(op: Op, computed: Any, results: int) -> list[te.Tensor]:
    """The tensors that a compute returned, checked to be one for each result. Raises `TypeMismatchError`."""
    listed = None if isinstance(computed, te.Tensor) or not isinstance(computed, Iterable) else list(computed)
    kinds = [type(item).__name__ for item in listed or ()]
    if listed is not None and len(listed) == results and all(isinstance(tensor, te.Tensor) for tensor in listed):
        return listed
    raise TypeMismatchError(
        f"the compute of the operator {op.name} returns a {type(computed).__name__}"
        f"{'' if listed is None else f' of {kinds}'}; it has to return a list of tensors, one for each result "
        f"(here {results})"
    )


def _note_source(tensors: Sequence[te.Tensor], inputs: Sequence[te.Tensor], source: str) -> None:
    """Add the model's node to the source positions of all operations between `inputs` and `tensors`."""
    known, work = {t.op for t in inputs}, [t.op for t in tensors] if source else []
    while work:
        op = work.pop()
        if op in known:
            continue
        known.add(op)
        if op.position is not None:
            op.position = op.position._replace(node=source)
        work += [t.op for t in op.input_tensors]


def _scalar(node: Constant) -> te.Tensor:
    """A one-element constant as an inlined compute; larger constants are parameters of a kernel."""
    if node.data.size != 1:
        raise InternalError(f"a constant of shape {node.data.shape} was left inside a fused function")
    dtype, data = node.tensor_type.dtype, node.data.reshape(())
    value = stored_constant(int(data.view("uint8")), dtype) if dtype.is_narrow else const(data.item(), str(dtype))
    return te.compute(node.data.shape, lambda *_: value, name="constant", tag="injective")


def _copy(tensor: te.Tensor) -> te.Tensor:
    return te.compute(tensor.shape, lambda *i: tensor(*i), name="copy", tag="injective")


#: Elements of a tensor from which on its kernel counts in 64 bits; tiles round sizes up, by less than to twice as much.
WIDE = 1 << 30


def index_type_of(function: Function) -> str:
    """The index type of a fused function's kernel: "int64" if a tensor has `WIDE` elements or more."""
    types = [tensor for node in post_order(function.body) for tensor in tensor_types(node.checked_type)]
    return "int64" if any(type_.is_static and type_.size >= WIDE for type_ in types) else "int32"


#: The attribute of a fused function, or of a call in it, that has the configuration of its schedule.
SCHEDULE = "schedule"


def chosen_config(function: Function) -> dict[str, int] | None:
    """The configuration attached to a fused function: its own, from tuning, or that of its anchor.

    A call has the one that its layout was chosen with.
    """
    if function.attrs.get(SCHEDULE):
        return dict(function.attrs[SCHEDULE])
    found = [dict(call.attrs[SCHEDULE]) for call in calls(function.body) if call.attrs.get(SCHEDULE)]
    return found[0] if len(found) == 1 else None


def config_of(function: Function, outs: list[te.Tensor], backend: Backend) -> dict[str, int] | None:
    """`chosen_config`, if the computation still has its anchor, which simplification may have removed (x·y − x·y)."""
    config = chosen_config(function)
    kept = config is None or is_sketch(config) or backend.search_space(outs) is not None
    return config if kept else None


def lower_task(function: Function, name: str, backend: Backend, config: Mapping[str, Any] | None = None) -> PrimFunc:
    """The kernel `name` of a fused function: parameters are its input tensors in order, then its outputs.

    `config` is a configuration of its search space; by default the one that was chosen with the layout, else the one of
    least cost. The attribute "choice" says what it is (`topi.schedule.choice.Choice`). A kernel that writes over one of
    its inputs promises no more that none overlap.
    """
    with te.index_type(index_type_of(function)):
        fused = to_compute(function)
        config = config or config_of(function, fused.outputs, backend)
        choice = backend.choice(fused.outputs, config)
        args = [*fused.inputs, *fused.outputs, *size_vars(function)]
        *_, (_, func) = backend.lower_stages(backend.schedule(fused.outputs, config), args, name)
    alone = {} if function.attrs.get(IN_PLACE) is None else {"noalias": False}
    return func.with_body(func.body, choice=choice, **alone)


def compute_positions(function: Function) -> dict[str, Position]:
    """The source position of the `te.compute` of each operation of a fused function, file and line by its name."""
    stages = te.create_schedule(to_compute(function).outputs).stages
    return {stage.name: stage.op.position for stage in stages if stage.op.position}
