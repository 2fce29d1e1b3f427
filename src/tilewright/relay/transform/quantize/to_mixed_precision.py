"""Mixed precision: products and convolutions in 16 bits, what needs the range or accuracy stays in float32.

Before: nn.softmax(nn.bias_add(nn.dense(%x, %w), %b))                                    (float32)
After:  %0 = nn.dense(cast(%x, "float16"), w16, out_dtype="float32"); %1 = cast(%0, "float16");
        %2 = nn.bias_add(%1, b16); nn.softmax(cast(%2, "float32"))

Each operator says when it is computed in 16 bits (`Op.precision`): ALWAYS, where all its inputs FOLLOW, or NEVER.
Those with an `out_dtype` accumulate in float32 and round once at the end. Results of the function keep their type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.errors import InputError
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern, Precision
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.tensor import cast
from tilewright.relay.transform.simplify.make import folded

_TYPES = ("float16", "bfloat16")

#: The rule of an operator, for a call and the 16-bit type: its precision, the type of its sums, that of its result.
Rule = Callable[[Call, str], tuple[int, str, str]]


def to_mixed_precision(
    mod: IRModule,
    mixed_precision_type: str = "float16",
    missing_op_mode: int = Precision.FOLLOW,
    rules: Mapping[str, Precision | Rule] | None = None,
) -> IRModule:
    """Compute in `mixed_precision_type` where it pays; see the module's docstring.

    `missing_op_mode`: the `Precision` of operators that say none and can be fused; the others stay in float32. `rules`
    overrides what operators say, by name. Raises `InputError` for another type or mode.
    """
    if mixed_precision_type not in _TYPES:
        raise InputError(f"to_mixed_precision: the type is one of {', '.join(_TYPES)}, not {mixed_precision_type!r}")
    if missing_op_mode not in tuple(Precision):
        raise InputError(f"to_mixed_precision: missing_op_mode is 0, 1 or 2 (see Precision), not {missing_op_mode!r}")
    missing = Precision(missing_op_mode)

    def transform(root: Expr) -> Expr:
        return _Rewriter(mixed_precision_type, rules or {}, missing).run(root)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(transform(func.body))))


class _Rewriter:
    """The rewriting of one function: each old node maps to its new one, which may be in 16 bits."""

    def __init__(self, half: str, rules: Mapping[str, Precision | Rule], missing: Precision) -> None:
        self.half = half
        self.rules = rules
        self.missing = missing
        self.fresh: dict[Expr, Expr] = {}
        self.casts: dict[tuple[Expr, str], Expr] = {}

    def run(self, root: Expr) -> Expr:
        """The rewritten `root` in its old type."""
        for node in post_order(root):
            if isinstance(node, Call) and isinstance(node.op, Op):
                self.fresh[node] = self._call(node, node.op)
            elif isinstance(node, Tuple | TupleGetItem):
                self.fresh[node] = rebuild(node, tuple([self.fresh[kid] for kid in children(node)]))
            else:
                self.fresh[node] = rebuild(node, tuple([self._as(self.fresh[k], type_of(k)) for k in children(node)]))
        return self._as(self.fresh[root], type_of(root))

    def _call(self, node: Call, op: Op) -> Expr:
        args = [self.fresh[arg] for arg in node.args]
        precision, sums, result = self._rule(node, op)
        if self._in_half(node, precision, args):
            narrow = [self._cast_floats(arg, self.half) for arg in args]
            return self._cast_floats(self._half_call(node, op, narrow, sums), result)
        wanted = [self._as(arg, type_of(old)) for arg, old in zip(args, node.args, strict=True)]
        return rebuild(node, tuple(wanted))

    def _rule(self, node: Call, op: Op) -> tuple[int, str, str]:
        """The precision of a call, the type of its sums and that of its result."""
        rule = self.rules.get(op.name, op.precision)
        if rule is None:
            rule = Precision.NEVER if op.pattern == OpPattern.OPAQUE else self.missing
        return (rule, "float32", self.half) if isinstance(rule, Precision) else rule(node, self.half)

    def _in_half(self, node: Call, precision: int, args: list[Expr]) -> bool:
        """True if the operator is to run in 16 bits, given its new arguments."""
        if precision == Precision.NEVER or not _is_float32(type_of(node)):
            return False
        if not all(_all_floats(type_of(arg), ("float32", self.half)) for arg in node.args):
            return False
        if precision == Precision.ALWAYS:
            return True
        computed = [arg for arg in args if not isinstance(arg, Constant) and _float_dtypes(type_of(arg))]
        return bool(computed) and all(_float_dtypes(type_of(arg)) == {self.half} for arg in computed)

    def _half_call(self, node: Call, op: Op, args: list[Expr], sums: str) -> Expr:
        wide = {"out_dtype": sums} if "out_dtype" in node.attrs else {}
        own = {"dtype": self.half} if not wide and node.attrs.get("dtype") == "float32" else {}
        return Call(op, args, node.attrs.replace(**wide, **own), node.span)

    def _cast_floats(self, expr: Expr, dtype: str) -> Expr:
        """`expr` with its float32 (or 16-bit) tensors in `dtype`; others, such as indices, as they are."""
        if isinstance(expr, Tuple):
            return rebuild(expr, tuple([self._cast_floats(field, dtype) for field in expr.fields]))
        type_ = type_of(expr)
        if isinstance(type_, TupleType):
            if _float_dtypes(type_) <= {dtype}:
                return expr
            return Tuple([self._cast_floats(TupleGetItem(expr, i), dtype) for i in range(len(type_.fields))])
        if not isinstance(type_, TensorType) or type_.dtype not in ("float32", self.half) or type_.dtype == dtype:
            return expr
        key = (expr, dtype)
        if key not in self.casts:
            self.casts[key] = folded(cast(expr, dtype))
        return self.casts[key]

    def _as(self, expr: Expr, type_: Type) -> Expr:
        """`expr` in the element types it had before."""
        return self._cast_floats(expr, "float32") if "float32" in _float_dtypes(type_) else expr


def _float_dtypes(type_: Type) -> set[str]:
    """The floating point element types in `type_`."""
    if isinstance(type_, TensorType):
        return {str(type_.dtype)} if type_.dtype.is_float else set()
    if isinstance(type_, TupleType):
        return set().union(*map(_float_dtypes, type_.fields))
    return set()


def _is_float32(type_: Type) -> bool:
    return _float_dtypes(type_) == {"float32"}


def _all_floats(type_: Type, allowed: tuple[str, ...]) -> bool:
    return _float_dtypes(type_) <= set(allowed)
