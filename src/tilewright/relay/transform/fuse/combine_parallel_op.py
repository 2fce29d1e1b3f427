"""Calls that read the same data with different weights become one call with all the weights side by side.

Before: %0 = nn.dense(%x, %wq); %1 = nn.dense(%x, %wk); %2 = nn.dense(%x, %wv);
        (add(%0, %bq), add(%1, %bk), add(%2, %bv))
After:  %0 = nn.dense(%x, concatenate((%wq, %wk, %wv))); %1 = add(%0, concatenate((%bq, %bk, %bv)));
        (%1[:, 0:64], %1[:, 64:128], %1[:, 128:192])

`combine_parallel_op` is what `combine_parallel_conv2d`, `combine_parallel_dense` and `combine_parallel_batch_matmul`
share; a `ParallelOp` says which calls go together and how their weights join. Elementwise and broadcasting calls that
follow in every branch alike are combined too. Joined constants fold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, merge_spans
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.structural import attrs_key
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import consumers, post_order, substitute
from tilewright.relay.op.transform import concatenate, stack, strided_slice
from tilewright.relay.transform.simplify.fold_constant import fold_call
from tilewright.relay.transform.simplify.make import is_call, reshape

Users = dict[Expr, list[Expr]]


@dataclass(frozen=True)
class ParallelOp:
    """Calls that can be combined: of the operator `name` on one first argument, with equal `key`s.

    `key` is None for a call that cannot take part. `combine` builds the one call; its result has the branches side by
    side along `axis`, each with its own extent, or, if `stacked`, as the rows of a new first axis.
    """

    name: str
    key: Callable[[Call], Hashable]
    combine: Callable[[Sequence[Call]], Expr]
    axis: int
    stacked: bool = False


def combine_parallel_op(mod: IRModule, op: ParallelOp, min_num_branches: int) -> IRModule:
    """Combine every group of at least `min_num_branches` calls; see the module's docstring."""
    return infer_type(mod).map_functions(lambda func: func.with_body(_transform(func.body, op, min_num_branches)))


def _transform(root: Expr, op: ParallelOp, min_num_branches: int) -> Expr:
    """One group at a time: whether the next one can be combined depends on what the last one reads now."""
    tried: set[Call] = set()
    while True:
        nodes = post_order(root)
        group = next(_groups(nodes, op, min_num_branches, tried), None)
        if group is None:
            return root
        tried.update(group)
        root = substitute(root, _combined(group, op, consumers(nodes)))


def _groups(nodes: list[Expr], op: ParallelOp, minimum: int, tried: set[Call]) -> Iterator[list[Call]]:
    """The groups that can be combined, in order of their first call."""
    found: dict[Hashable, list[Call]] = {}
    for node in nodes:
        if isinstance(node, Call) and is_call(node, op.name) and node not in tried:
            key = op.key(node)
            if key is not None:
                found.setdefault((node.args[0], key), []).append(node)
    for group in found.values():
        if len(group) >= minimum and not _depends(group, [arg for call in group for arg in call.args[1:]]):
            yield group


def _depends(group: Sequence[Expr], operands: Sequence[Expr]) -> bool:
    """True if one of `operands` is computed from a call of `group`, so that one call cannot stand for all."""
    return not set(group).isdisjoint(post_order(*operands))


def _combined(group: list[Call], op: ParallelOp, users: Users) -> dict[Expr, Expr]:
    """For the last call of each branch what replaces it: its part of the combined value."""
    value = op.combine(group)
    heads: list[Call] = list(group)
    while (followers := _followers(heads, op, users)) is not None:
        position = followers[0].args.index(heads[0])
        operands = [_joined_operand(followers, heads, i, op) for i in range(len(followers[0].args))]
        if any(operand is None for i, operand in enumerate(operands) if i != position):
            break
        args = [value if i == position else operand for i, operand in enumerate(operands)]
        value = Call(followers[0].op, args, followers[0].attrs, merge_spans(*followers))  # type: ignore[arg-type]
        heads = followers
    return dict(zip(heads, _parts(value, heads, op), strict=True))


def _followers(heads: list[Call], op: ParallelOp, users: Users) -> list[Call] | None:
    """The calls, alike in every branch, that read the heads and nothing else reads them; None if there are none."""
    following: list[Call] = []
    for head in heads:
        readers = users[head]
        if len(readers) != 1 or not isinstance(readers[0], Call) or not isinstance(readers[0].op, Op):
            return None
        following.append(readers[0])
    first = following[0]
    assert isinstance(first.op, Op)
    if first.op.pattern > OpPattern.BROADCAST or len(set(following)) < len(following):
        return None
    for call, head in zip(following, heads, strict=True):
        alike = call.op is first.op and attrs_key(call.attrs) == attrs_key(first.attrs)
        positions = [arg is head for arg in call.args]
        if not alike or sum(positions) != 1 or not positions[first.args.index(heads[0])]:
            return None
        if type_of(call) != TensorType(tensor_type_of(head).shape, tensor_type_of(call).dtype):
            return None
    if _depends(heads, [arg for call, head in zip(following, heads) for arg in call.args if arg is not head]):
        return None
    return following


def _joined_operand(calls: list[Call], heads: list[Call], index: int, op: ParallelOp) -> Expr | None:
    """Argument `index` of all `calls` as one operand beside the combined value; None if they do not join."""
    operands = [call.args[index] for call in calls]
    if operands[0] is heads[0]:
        return operands[0]
    ndim = tensor_type_of(heads[0]).ndim
    axis = op.axis % ndim
    if is_call(calls[0], "nn.bias_add"):
        return join(operands, 0) if calls[0].attrs.axis % ndim == axis and not op.stacked else None
    types = [type_of(operand) for operand in operands]
    if not all(isinstance(t, TensorType) and t.dtype == types[0].dtype for t in types):  # type: ignore[attr-defined]
        return None
    shapes = [(1,) * (ndim - t.ndim) + t.shape for t in types]  # type: ignore[attr-defined]
    if op.stacked:
        return stack_all([reshape(o, s) for o, s in zip(operands, shapes)]) if len(set(shapes)) == 1 else None
    if all(shape[axis] == 1 for shape in shapes) and _one_value(operands):
        return operands[0]
    extents = [tensor_type_of(head).shape[axis] for head in heads]
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) > 1 or [shape[axis] for shape in shapes] != extents:
        return None
    return join([reshape(o, s) for o, s in zip(operands, shapes)], axis)


def _one_value(operands: Sequence[Expr]) -> bool:
    """True if all are the same node, or equal one-element constants."""
    if all(operand is operands[0] for operand in operands):
        return True
    scalars = [operand.data for operand in operands if isinstance(operand, Constant) and operand.data.size == 1]
    return len(scalars) == len(operands) and len({scalar.tobytes() for scalar in scalars}) == 1


def join(parts: Sequence[Expr], axis: int) -> Expr:
    """`parts` side by side along `axis`, folded if all are constants."""
    return _folded_whole(concatenate(Tuple(parts), axis=axis), parts)


def stack_all(parts: Sequence[Expr]) -> Expr:
    """`parts` as the rows of a new first axis, folded if all are constants."""
    return _folded_whole(stack(Tuple(parts), axis=0), parts)


def _folded_whole(call: Call, parts: Sequence[Expr]) -> Expr:
    """`call` of constant `parts` as its value, which is as large as they are together."""
    return fold_call(call, limit=sum(tensor_type_of(part).nbytes for part in parts)) or call


def _parts(value: Expr, heads: list[Call], op: ParallelOp) -> Iterator[Expr]:
    """The share of each branch in the combined `value`."""
    start = 0
    for head in heads:
        shape = tensor_type_of(head).shape
        axis = 0 if op.stacked else op.axis % len(shape)
        extent = 1 if op.stacked else shape[axis]
        part = strided_slice(value, begin=(start,), end=(start + extent,), strides=(1,), axes=(axis,))
        yield reshape(part, shape) if op.stacked else part
        start += extent
