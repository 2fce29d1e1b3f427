"""Attention as one operator, where two stacks of matrix products meet around a softmax.

Before: %s = nn.batch_matmul(%q, %k, transpose_b=False); %p = nn.softmax(add(multiply(%s, 0.125f), %mask))
        transpose(nn.batch_matmul(%p, %v, transpose_b=False), axes=[0, 2, 1, 3])          reshapes left out
After:  nn.attention(%q, transpose(%k), %v, %mask, scale=0.125f, out_layout="BSHD")

The scores are then never written as a whole. What only moves the elements of queries, keys and values (splits into
heads, transposes, slices) fuses into the kernel later; a transpose of the result becomes its layout. Scores that
something else reads, and products of so few rows that the copy of the keys would cost as much as the product, stay; so
do numbers of heads and depths that are not known at compile time. Batch and lengths may be symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, as_dim
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.op.nn.attention_backward import has_backward_kernel
from tilewright.relay.op.views import is_reshape
from tilewright.relay.transform.simplify.make import is_call, make, reshape
from tilewright.tir.size_hint import size_hint

Users = Mapping[Expr, list[Expr]]

#: A fill value for hidden scores so low that adding it to a score yields the fill value itself.
_ABSORBING = -1e30


@dataclass(frozen=True)
class _Attention:
    """The operands of one attention, nodes of the old graph.

    `views` of queries and keys move their elements, outermost first, where scalar factors were taken out.
    """

    query: Expr
    key: Expr
    value: Expr
    transposed_key: bool
    heads: tuple[int, int]
    scale: float
    mask: Expr | None
    fill: float | None
    views: tuple[tuple[Call, ...], tuple[Call, ...]]
    types: tuple[TensorType, TensorType]
    """of the stacks of queries and values"""


def fuse_attention(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with every attention of `main` as one `nn.attention`; see the module's docstring."""
    mod = infer_type(mod)
    main = mod["main"]

    def fits(query: TensorType, value: TensorType) -> bool:
        rows, depth, width = size_hint(query.shape[1]), int(query.shape[2]), int(value.shape[2])
        return backend.fuses_attention(rows, depth, width, str(query.dtype))

    body = with_attention(main.body, fits)
    return mod if body is main.body else infer_type(mod.with_function("main", main.with_body(body)))


def with_attention(expr: Expr, fits: Callable[[TensorType, TensorType], bool]) -> Expr:
    """`expr`, whose types are known, with every attention as one `nn.attention`; the same object if there is none.

    `fits` is True for the types of the stacks of queries [B, M, D] and values [B, N, E] of what is to be one.
    """
    nodes = post_order(expr)
    users = consumers(nodes)
    found: dict[Expr, _Attention] = {}
    done: dict[Expr, Expr] = {}
    narrow: dict[Expr, Expr] = {}  # results that a cast widens, by the cast
    for node in nodes:
        attention = _match(node, users, fits) if is_call(node, "nn.batch_matmul") else None
        if attention is not None:
            found[node] = attention
            made = reshape(_build(attention, "BHSD", done, node), tensor_type_of(node).shape)
            done[node] = _widened(made, node, narrow)
            continue
        within = narrow.get(done[node.args[0]]) if isinstance(node, Call) and is_call(node, "cast") else None
        if within is not None and tensor_type_of(within).dtype == tensor_type_of(node).dtype:
            done[node] = within
            continue
        product = _transposed_attention(node, found, users) if is_call(node, "transpose") else None
        if product is not None:
            made = reshape(_build(found[product], "BSHD", done, product), tensor_type_of(node).shape)
            done[node] = _widened(made, node, narrow)
            continue
        done[node] = rebuild(node, tuple([done[kid] for kid in children(node)]))
    return done[expr] if found else expr


def with_differentiable_attention(expr: Expr) -> Expr:
    """`expr` with `nn.attention` wherever its gradient is one kernel, which computes the scores again."""
    type_of(expr)
    return with_attention(expr, lambda query, value: query == value and has_backward_kernel(query, query, value))


def _widened(result: Expr, node: Expr, narrow: dict[Expr, Expr]) -> Expr:
    """An attention's result in the type of `node`, whose sums the graph may keep wider than its operands."""
    dtype = tensor_type_of(node).dtype
    if tensor_type_of(result).dtype == dtype:
        return result
    made = make("cast", result, dtype=str(dtype))
    narrow[made] = result
    return made


def _match(product: Expr, users: Users, fits: Callable[[TensorType, TensorType], bool]) -> _Attention | None:
    """The attention, of types that `fits`, whose second matrix product is `product`."""
    assert isinstance(product, Call)
    if product.attrs["transpose_a"] or product.attrs["transpose_b"]:
        return None
    if any(tensor_type_of(arg).has_any for arg in product.args):
        return None
    weights = _through_reshapes(product.args[0], users)
    rows, columns = tensor_type_of(product.args[0]).shape[-2:]
    if weights is None or not is_call(weights, "nn.softmax"):
        return None
    assert isinstance(weights, Call)
    shape = tensor_type_of(weights).shape
    if weights.attrs["axis"] % len(shape) != len(shape) - 1 or shape[-2:] != (rows, columns) or len(shape) > 4:
        return None
    found = _match_scores(weights, product.args[1], users)
    if found is None:
        return None
    return found if fits(*found.types) else None


def _match_scores(softmax: Call, value: Expr, users: Users) -> _Attention | None:
    """Walks from the softmax back to the product of queries and keys, over scale, mask, reshapes and casts."""
    shape = tensor_type_of(softmax).shape
    batch, count = (1, 1, *shape[:-2])[-2:]
    heads = (batch, count)
    rows = shape[-2:]
    scale, mask, fill = 1.0, None, None
    node = softmax.args[0]
    while not is_call(node, "nn.batch_matmul"):
        if len(users[node]) != 1 or not isinstance(node, Call):
            return None
        factor = _scalar_factor(node)
        if is_reshape(node) or _is_float_cast(node):
            if tensor_type_of(node).shape[-2:] != rows or tensor_type_of(node.args[0]).shape[-2:] != rows:
                return None
            node = node.args[0]
        elif factor is not None:
            node, value_of_factor = factor
            scale *= value_of_factor
        elif mask is None and scale == 1.0 and is_call(node, "add", "where"):
            split = _split_mask(node, heads, rows)
            if split is None:
                return None
            node, mask, fill = split
        else:
            return None
    if len(users[node]) != 1 or not isinstance(node, Call) or node.attrs["transpose_a"]:
        return None
    batches = as_dim(heads[0] * heads[1])
    types = [tensor_type_of(operand) for operand in (*node.args, value)]
    if any(one.shape[0] != batches or one.dtype != types[0].dtype for one in types) or not types[0].dtype.is_float:
        return None
    query, key = node.args
    depths = [tensor_type_of(operand).shape[2] for operand in (query, value)]
    if not isinstance(heads[1], int) and heads[0] == 1 and mask is None:
        heads = (heads[1], 1)  # heads of a symbolic batch, which are not distinguished
    if not all(isinstance(size, int) for size in (heads[1], *depths)):
        return None
    (query, of_query, factors), (key, of_key, others) = _without_factors(query), _without_factors(key)
    return _Attention(query, key, value, not node.attrs["transpose_b"], heads, scale * factors * others, mask, fill,
                      (of_query, of_key), (types[0], types[2]))  # fmt: skip


def _without_factors(node: Expr) -> tuple[Expr, tuple[Call, ...], float]:
    """The matrices that a stack is a multiple of by scalars, the calls that move their elements, and the multiple."""
    start, views, kept, factor = node, list[Call](), tuple[Call, ...](), 1.0
    while isinstance(node, Call):
        found = _scalar_factor(node)
        if found is not None:
            node, start, factor = found[0], found[0], factor * found[1]
            kept = tuple(views)
        elif is_reshape(node) or is_call(node, "transpose"):
            views.append(node)
            node = node.args[0]
        else:
            break
    return start, kept, factor


def _is_float_cast(node: Call) -> bool:
    """True for a change of precision."""
    return is_call(node, "cast") and all(tensor_type_of(x).dtype.is_float for x in (node, node.args[0]))


def _through_reshapes(node: Expr, users: Users) -> Expr | None:
    """The node behind reshapes and casts, each used once; None where something else reads it too."""
    while len(users[node]) == 1:
        if not isinstance(node, Call) or not (is_reshape(node) or _is_float_cast(node)):
            return node
        node = node.args[0]
    return None


def _scalar_factor(node: Call) -> tuple[Expr, float] | None:
    """The tensor and the number of a product or quotient with a constant scalar."""
    if not is_call(node, "multiply", "divide"):
        return None
    swapped = is_call(node, "multiply") and isinstance(node.args[0], Constant)
    tensor, number = node.args[::-1] if swapped else node.args
    if not isinstance(number, Constant) or number.data.size != 1 or tensor_type_of(tensor) != tensor_type_of(node):
        return None
    value = float(number.data.reshape(()))
    return tensor, value if is_call(node, "multiply") else 1.0 / value


def _split_mask(node: Call, heads: tuple[int, int], rows: tuple[int, ...]) -> tuple[Expr, Expr, float | None] | None:
    """The scores, the mask and, for `where`, what hidden scores become; None if the mask does not broadcast."""
    full = tensor_type_of(node).shape
    fill = None
    if is_call(node, "where"):
        mask, scores, other = node.args
        hidden = float(other.data.reshape(())) if isinstance(other, Constant) and other.data.size == 1 else 0.0
        if hidden > _ABSORBING:
            return None
        fill = hidden
    else:
        scores, mask = node.args if _reaches_product(node.args[0]) else node.args[::-1]
    given = tensor_type_of(mask).shape
    whole = len(full) == 4 or (len(full) == 3 and (heads[0] == 1 or given[:-2] in ((), (1,))))
    if not _reaches_product(scores) or tensor_type_of(scores).shape != full or not whole or len(full) < len(given):
        return None
    return scores, mask, fill


def _reaches_product(node: Expr) -> bool:
    """True if scales, masks and reshapes lead from `node` back to a stack of products."""
    while isinstance(node, Call) and not is_call(node, "nn.batch_matmul"):
        factor = _scalar_factor(node)
        if factor is not None:
            node = factor[0]
        elif is_reshape(node) or _is_float_cast(node):
            node = node.args[0]
        else:
            return False
    return is_call(node, "nn.batch_matmul")


def _build(attention: _Attention, out_layout: str, done: Mapping[Expr, Expr], product: Expr) -> Expr:
    """The call of `nn.attention` on the rebuilt operands."""

    def moved(stack: Expr, views: tuple[Call, ...] = ()) -> Expr:
        made = done[stack]
        for view in reversed(views):
            made = rebuild(view, (made,))
        return made

    def stacked(matrices: Expr) -> Expr:
        return reshape(matrices, (*attention.heads, *tensor_type_of(matrices).shape[1:]))

    query, key = (moved(*one) for one in zip((attention.query, attention.key), attention.views, strict=True))
    if attention.transposed_key:
        key = make("transpose", key, axes=(0, 2, 1))
    operands = [stacked(query), stacked(key), stacked(done[attention.value])]
    if attention.mask is not None:
        operands.append(_mask(done[attention.mask], attention.fill))
    span = product.span if isinstance(product, Call) else ""
    attrs = {"scale": attention.scale, "causal": False, "out_layout": out_layout}
    return make("nn.attention", *operands, span=span, **attrs)


def _mask(mask: Expr, fill: float | None) -> Expr:
    """The mask as a tensor of four dimensions to add to the scores."""
    given = tensor_type_of(mask).shape
    mask = reshape(mask, (*(1,) * (4 - len(given)), *given))
    if fill is None:
        return mask
    shown, hidden = (Constant(np.asarray(x, "float32")) for x in (0.0, fill))
    return make("where", mask, shown, hidden)


def _transposed_attention(node: Expr, found: Mapping[Expr, _Attention], users: Users) -> Expr | None:
    """The second product of an attention whose result only `node` reads, to put rows before heads."""
    assert isinstance(node, Call)
    shape = tensor_type_of(node.args[0]).shape
    product = _through_reshapes(node.args[0], users)
    if product not in found or product is None:
        return None
    rows, width = tensor_type_of(product).shape[-2:]
    if shape != (*found[product].heads, rows, width):
        return None
    axes = [axis % 4 for axis in node.attrs["axes"] or (3, 2, 1, 0)]
    moved = [axis for axis in axes if shape[axis] != 1]
    return product if moved == [axis for axis in (0, 2, 1, 3) if shape[axis] != 1] else None
