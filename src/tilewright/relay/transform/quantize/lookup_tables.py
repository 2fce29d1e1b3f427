"""Chains of elementwise operators from bytes to bytes as tables of their 256 values, where these are quicker.

Before: cast(clip(round(divide(erf(multiply(cast(%x, "float32"), 0.015f)), 0.007f)), -128f, 127f), "int8")    %x: int8
After:  lookup_byte(%x, const<int8[256]>)

Such chains stand in models that quantize the result of each operator, as activations written in several. The values are
those of the operators' references, so all processors agree on them. A chain that returns its bytes is left out.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.call_reference import reference_value
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import consumers, post_order, rewrite, substitute
from tilewright.relay.op.common import same_dims
from tilewright.relay.op.gather import lookup_byte
from tilewright.topi.transform import BYTES

#: Vector instructions of a function that is a polynomial.
_FUNCTION = 20


def lookup_tables(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Look up functions of one byte; see the module's docstring."""
    price = backend.lookup_cost()
    if price is None:
        return mod
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(_rewritten(func.body, price))))


def _rewritten(body: Expr, price: int) -> Expr:
    """A function's body with the ends of its chains looked up."""
    nodes = post_order(body)
    sources = _sources(nodes)
    done: dict[Expr, Expr] = {}
    for node in _ends(nodes, sources, price):
        source = sources[node]
        values, same = _values(node, source)
        read = _with(source, done)
        done[node] = read if same else lookup_byte(read, Constant(values))
    return _with(body, done)


def _with(expr: Expr, done: dict[Expr, Expr]) -> Expr:
    """`expr` with the nodes of `done` replaced, which it completes."""
    return rewrite(expr, lambda node: None, done)


def _sources(nodes: list[Expr]) -> dict[Expr, Expr]:
    """Of each node that elementwise operators compute from one tensor of bytes, that tensor."""
    sources: dict[Expr, Expr] = {}
    for node in nodes:
        if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.effects or not node.args:
            continue
        if node.op.pattern not in (OpPattern.ELEMWISE, OpPattern.BROADCAST) or node.op.name == "lookup_byte":
            continue
        read = [arg for arg in node.args if not (isinstance(arg, Constant) and arg.data.size == 1)]
        found = {sources.get(arg, arg if _is_bytes(arg) else None) for arg in read}
        source = found.pop() if len(found) == 1 else None
        if source is not None and same_dims(tensor_type_of(node).shape, tensor_type_of(source).shape):
            sources[node] = source
    return sources


def _is_bytes(expr: Expr) -> bool:
    type_ = expr.checked_type
    return isinstance(type_, TensorType) and type_.dtype in ("int8", "uint8") and not isinstance(expr, Constant)


def _ends(nodes: list[Expr], sources: dict[Expr, Expr], price: int) -> list[Expr]:
    """The nodes of bytes that are read outside their chain and cost more than a table, in order of evaluation."""
    users = consumers(nodes)
    computed: set[Expr] = set()
    ends: list[Expr] = []
    for node in reversed(nodes):
        read = [user for user in users[node] if sources.get(user) is not sources.get(node) or user in computed]
        if node not in sources or not (read or node is nodes[-1]):
            continue
        if _is_bytes(node) and _cost(node, sources[node]) > price:
            ends.append(node)
        else:
            computed.add(node)
    return ends[::-1]


def _chain(node: Expr, source: Expr) -> list[Call]:
    """The calls from `source` to `node`."""
    found = post_order(node, operands=lambda expr: () if expr is source else expr.operands())
    return [one for one in found if isinstance(one, Call) and one is not source]


def _cost(node: Expr, source: Expr) -> int:
    """Vector instructions of a chain."""
    return sum(_FUNCTION if call.op.costly else 1 for call in _chain(node, source) if isinstance(call.op, Op))


def _values(node: Expr, source: Expr) -> tuple[np.ndarray, bool]:
    """The values of a chain for all bytes, by their bits, and whether they are the bytes themselves."""
    every = np.arange(BYTES, dtype=np.uint8).view(str(tensor_type_of(source).dtype))
    values = reference_value(substitute(node, {source: Constant(every)})).reshape(BYTES)
    return values, values.dtype == every.dtype and np.array_equal(values, every)
