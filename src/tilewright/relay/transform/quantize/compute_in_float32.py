"""Halves computed in float32: values of 16 bits are widened once, rounded once, and stay wide in between.

Before: nn.relu(nn.conv2d(%x, w16))                                        (%x: float16, w16: a constant in float16)
After:  cast(nn.relu(nn.conv2d(cast(%x, "float32"), w32)), "float16")

For processors whose arithmetic is in float32 whatever the type: kernels of 16-bit operands would convert each of them
again wherever they read it, and round each result. Weights are converted when the model is compiled. Inputs, outputs
and what casts and operators with other results than floats read (comparisons, tests for infinity, sorting, indices) are
rounded as before; so is what the program itself casts to 16 bits. What only moves elements moves them in the type they
have. With `exact`, what goes from one operator of the source model to another is rounded, too:

After:  cast(nn.relu(cast(cast(nn.conv2d(cast(%x, "float32"), w32), "float16"), "float32")), "float16")

Where the processor multiplies bfloat16, what such products read is rounded to its type in the model, so that
`bfloat16_products` finds operands of 16 bits:

After:  %0 = nn.relu(nn.dense(cast(%x, "float32"), v32)); cast(nn.dense(cast(cast(%0, "bfloat16"), "float32"), w32), …)
"""

from __future__ import annotations

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, TupleType, Type, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.tensor import cast
from tilewright.relay.transform.simplify.fold_constant import ANY_SIZE, fold_call
from tilewright.relay.transform.simplify.make import is_call

_HALVES = ("float16", "bfloat16")
_WIDE = "float32"


def compute_in_float32(mod: IRModule, exact: bool = False, backend: GraphBackend | None = None) -> IRModule:
    """Compute what is of 16-bit floats in float32, with `exact` rounded after each operator; see the module."""
    pairs = backend is not None and backend.multiplies_pairs()

    def transform(root: Expr) -> Expr:
        nodes = post_order(root)
        halves = any(_has_half(type_of(node)) for node in nodes if isinstance(node, Call) and isinstance(node.op, Op))
        return _Widener(exact, pairs).run(nodes) if halves else root

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(transform(func.body))))


class _Widener:
    """The rewriting of one function: each old node maps to its new one, in the old types, in float32, or in both."""

    def __init__(self, exact: bool, pairs: bool) -> None:
        self._exact, self._pairs = exact, pairs
        self._narrow: dict[Expr, Expr] = {}
        self._wide: dict[Expr, Expr] = {}  # of what is computed in float32
        self._casts: dict[tuple[Expr, str], Expr] = {}  # of the rest, by the source of who reads them
        self._constant: set[Expr] = set()

    def run(self, nodes: list[Expr]) -> Expr:
        """The rewritten root, the last of `nodes`, in its old type."""
        for node in nodes:
            if isinstance(node, Constant) or (children(node) and all(kid in self._constant for kid in children(node))):
                self._constant.add(node)
            if isinstance(node, Call) and isinstance(node.op, Op):
                self._call(node, node.op)
            elif not isinstance(node, Tuple | TupleGetItem):
                self._narrow[node] = rebuild(node, tuple([self.narrow(kid) for kid in children(node)]))
        return self.narrow(nodes[-1])

    def _call(self, node: Call, op: Op) -> None:
        if self._computes_wide(node, op):
            attrs = {name: _WIDE for name, value in node.attrs.items() if name in _TYPE_ATTRS and value in _HALVES}
            operand = self._rounded if self._pairs and is_call(node, "nn.dense") else self.wide
            wide = Call(op, [operand(arg, node.span) for arg in node.args], node.attrs.replace(**attrs), node.span)
            if type_of(wide) == _widened(type_of(node)):
                self._wide[node] = wide
                return
        self._narrow[node] = rebuild(node, tuple([self.narrow(arg) for arg in node.args]))

    def _computes_wide(self, node: Call, op: Op) -> bool:
        """True if `node` reads halves as float32, and returns its own as such."""
        halves = [arg for arg in node.args if _has_half(type_of(arg))]
        if not halves or op.effects or op.data_dependent or not _is_floats(type_of(node)):
            return False
        if is_call(node, "cast", "reinterpret"):
            return False
        if not (op.rearranges or op.picks):
            return True
        return any(self._is_wide(arg) for arg in halves) or all(arg in self._constant for arg in node.args)

    def _is_wide(self, node: Expr) -> bool:
        """True if the value is computed in float32, at least in part."""
        if isinstance(node, Tuple):
            return any(map(self._is_wide, node.fields))
        return self._is_wide(node.tuple_value) if isinstance(node, TupleGetItem) else node in self._wide

    def narrow(self, node: Expr) -> Expr:
        """The new form of `node` in its old types."""
        if node not in self._narrow:
            if isinstance(node, Tuple):
                self._narrow[node] = rebuild(node, tuple([self.narrow(field) for field in node.fields]))
            elif isinstance(node, TupleGetItem) and node.tuple_value not in self._wide:
                self._narrow[node] = rebuild(node, (self.narrow(node.tuple_value),))
            elif isinstance(node, TupleGetItem):
                self._narrow[node] = _as(TupleGetItem(self._wide[node.tuple_value], node.index), type_of(node))
            else:
                self._narrow[node] = _as(self._wide[node], type_of(node))
        return self._narrow[node]

    def wide(self, node: Expr, reader: str) -> Expr:
        """The new form of `node` with halves in float32, for an operator that stands for `reader` in the source."""
        if node in self._wide and not self._rounds(node, reader):
            return self._wide[node]
        key = (node, reader if self._exact else "")
        if key not in self._casts:
            if isinstance(node, Tuple):
                self._casts[key] = Tuple([self.wide(field, reader) for field in node.fields])
            elif isinstance(node, TupleGetItem):
                self._casts[key] = TupleGetItem(self.wide(node.tuple_value, reader), node.index)
            else:
                self._casts[key] = _as(self.narrow(node), _widened(type_of(node)))
        return self._casts[key]

    def _rounded(self, node: Expr, reader: str) -> Expr:
        """As `wide`, a bfloat16 rounded to it first."""
        type_ = type_of(node)
        if node not in self._wide or not isinstance(type_, TensorType) or str(type_.dtype) != "bfloat16":
            return self.wide(node, reader)
        key = (node, "rounded")
        if key not in self._casts:
            self._casts[key] = _as(self.narrow(node), _widened(type_))
        return self._casts[key]

    def _rounds(self, node: Expr, reader: str) -> bool:
        """True if what `node` computes is rounded before `reader` of the source reads it."""
        assert isinstance(node, Call)
        return self._exact and (not node.span or node.span != reader)


#: Attributes that name the element type of a result.
_TYPE_ATTRS = ("out_dtype", "dtype")


def _has_half(type_: Type) -> bool:
    return any(part.dtype.is_half for part in _tensors(type_))


def _is_floats(type_: Type) -> bool:
    """True if there are floats in `type_`, and nothing else."""
    return bool(_tensors(type_)) and all(part.dtype.is_float for part in _tensors(type_))


def _tensors(type_: Type) -> list[TensorType]:
    return tensor_types(type_) if isinstance(type_, TensorType | TupleType) else []


def _widened(type_: Type) -> Type:
    """`type_` with float32 instead of halves."""
    if isinstance(type_, TupleType):
        return TupleType([_widened(field) for field in type_.fields])
    if isinstance(type_, TensorType) and type_.dtype.is_half:
        return TensorType(type_.shape, _WIDE)
    return type_


def _as(expr: Expr, wanted: Type) -> Expr:
    """`expr` with its tensors cast to the element types of `wanted`; constants are cast now."""
    given = type_of(expr)
    if isinstance(wanted, TupleType):
        if given == wanted:
            return expr
        return Tuple([_as(TupleGetItem(expr, i), field) for i, field in enumerate(wanted.fields)])
    if not isinstance(wanted, TensorType) or not isinstance(given, TensorType) or given.dtype == wanted.dtype:
        return expr
    call = cast(expr, str(wanted.dtype))
    return fold_call(call, ANY_SIZE) or call
