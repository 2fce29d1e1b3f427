"""Reverse-mode automatic differentiation of tensor expressions.

The gradient of a stage with respect to a tensor it reads is a sum, over every position where the tensor is read, of the
output's gradient times the derivative of the expression with respect to that read. A read `T[f(i, k)]` adds the
element at `x` a share from every (i, k) with f(i, k) = x: where f can be solved for some of its axes the others are
summed over, under the condition that the solution is in range; an axis that cannot be solved for is summed over too,
under the condition that the index is `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.support.recursion import nested
from tilewright.te import reducer
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp, compute
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.tensor import Tensor
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.linear import Linear
from tilewright.tir.expr import Expr, IntImm, ProducerLoad, Reduce, Var
from tilewright.tir.visitor import children, collect_vars, substitute


def gradient(output: Tensor, inputs: Any, head: Tensor | None = None) -> list[Tensor]:
    """The gradients of `output` with respect to each of `inputs` (a tensor or a list), tensors of the inputs' shapes.

    `head`, of the output's shape, is the gradient of a later scalar with respect to `output`; without it the gradient
    is the Jacobian, of shape output.shape + input.shape. Sums, products, maxima and minima can be differentiated
    through, and every smooth function; at a kink (the larger of two equal values) one side is taken, and all elements
    that share a maximum get its gradient. Raises UnsupportedError naming the operation that cannot be differentiated.
    """
    wanted = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if head is not None and head.shape != output.shape:
        raise TypeError(f"gradient: head has the shape {list(head.shape)}, {output.name} {list(output.shape)}")
    extra = () if head is not None else output.shape
    adjoints: dict[Tensor, Tensor] = {output: head if head is not None else _identity(output)}
    for operation in reversed(_between(output, wanted)):
        for tensor in operation.outputs:
            if tensor in adjoints:
                _propagate(operation, tensor, adjoints, len(extra))
    return [adjoints[t] if t in adjoints else _zeros((*extra, *t.shape), t) for t in wanted]


def _between(output: Tensor, wanted: Sequence[Tensor]) -> list[Operation]:
    """The operations on a path from one of `wanted` to `output`, producers first."""
    order: dict[Operation, bool] = {}

    @nested
    def visit(operation: Operation) -> bool:
        if operation not in order:
            below = [visit(t.op) for t in operation.input_tensors]
            order[operation] = any(below) or any(t in wanted for t in operation.outputs)
        return order[operation]

    visit(output.op)
    return [operation for operation, leads in order.items() if leads]


def _identity(output: Tensor) -> Tensor:
    """The Jacobian of a tensor with respect to itself."""
    n = output.ndim

    def element(*i: Var) -> Expr:
        same = [op.eq(a, b) for a, b in zip(i[:n], i[n:], strict=True)]
        return op.cast(output.dtype, op.all(*same)) if same else op.const(1, output.dtype)

    return _tensor((*output.shape, *output.shape), element, f"{output.name}.identity")


def _zeros(shape: Sequence[Expr], like: Tensor) -> Tensor:
    return _tensor(shape, lambda *i: op.const(0, like.dtype), f"{like.name}.grad")


def _tensor(shape: Sequence[Expr], element: Callable[..., Any], name: str) -> Tensor:
    made = compute(shape, element, name=name)
    assert isinstance(made, Tensor)
    return made


def _propagate(operation: Operation, tensor: Tensor, adjoints: dict[Tensor, Tensor], extra: int) -> None:
    """Adds to the adjoints of what `operation` reads its share of the adjoint of `tensor`."""
    if isinstance(operation, PlaceholderOp):
        return
    if not isinstance(operation, ComputeOp):
        raise UnsupportedError(f"te.gradient cannot differentiate {operation!r}: it is not a te.compute")
    body = operation.body[tensor.value_index]
    adjoint = adjoints[tensor]
    for load, derivative in _derivatives(operation, tensor, body):
        share = _share(operation, load, derivative, adjoint, extra)
        old = adjoints.get(load.producer)
        if old is None:
            adjoints[load.producer] = share
        else:
            name = f"{load.producer.name}.grad"
            adjoints[load.producer] = _tensor(share.shape, lambda *i, a=old, b=share: a(*i) + b(*i), name)


def _derivatives(operation: ComputeOp, tensor: Tensor, body: Expr) -> list[tuple[ProducerLoad, Expr]]:
    """Each read in the body of floating point type, with the derivative of an output element's term by it."""
    if not isinstance(body, Reduce):
        return _partials(operation, body, op.const(1, body.dtype))
    if len(body.source) != 1:
        raise UnsupportedError(f"te.gradient cannot differentiate {operation.name}: a reduction of a tuple")
    source, result = body.source[0], body.combiner.result[0]
    element = tensor(*operation.axis)
    if isinstance(result, e.Add):
        seed: Expr = op.const(1, source.dtype)
    elif isinstance(result, (e.Max, e.Min)):
        seed = op.cast(source.dtype, op.eq(source, element))
    elif isinstance(result, e.Mul):
        seed = element / source
    else:
        raise UnsupportedError(
            f"te.gradient cannot differentiate {operation.name}: the reducer {body.combiner.name} is no sum, product, "
            "maximum or minimum"
        )
    always = isinstance(body.condition, IntImm) and body.condition.value
    seed = seed if always else op.if_then_else(body.condition, seed, op.const(0, source.dtype))
    return _partials(operation, source, seed)


# --------------------------------------------------------------------------------- derivatives of an expression
def _partials(operation: ComputeOp, body: Expr, seed: Expr) -> list[tuple[ProducerLoad, Expr]]:
    """Every read in `body` with `seed` times the derivative of `body` by it, reads in order of appearance."""
    order = [x for x in _topological(body) if x.dtype.is_float]
    adjoint: dict[Expr, Expr] = {body: seed}
    found: list[tuple[ProducerLoad, Expr]] = []
    for x in reversed(order):
        value = adjoint.get(x)
        if value is None:
            continue
        if isinstance(x, ProducerLoad):
            found.append((x, value))
            continue
        for child, share in _rule(operation, x, value):
            if child.dtype.is_float and not isinstance(child, e.FloatImm):
                adjoint[child] = adjoint[child] + share if child in adjoint else share
    return found[::-1]


def _topological(root: Expr) -> list[Expr]:
    """Every expression under `root` that a value flows through, children first; indices of reads are left out."""
    done: dict[Expr, None] = {}

    @nested
    def visit(x: Expr) -> None:
        if x not in done:
            if not isinstance(x, ProducerLoad):
                for child in children(x):
                    visit(child)
            done[x] = None

    visit(root)
    return list(done)


def _rule(operation: ComputeOp, x: Any, g: Expr) -> list[tuple[Expr, Expr]]:
    """(operand, share of the adjoint `g`) for each operand of `x`."""
    if isinstance(x, (IntImm, e.FloatImm, Var)):
        return []
    if isinstance(x, e.Call):
        if x.op in ("if_then_else", "likely"):
            return _choice(x, g)
        known = _CALLS.get(x.op)
        if known is not None:
            return [(a, g * d) for a, d in zip(x.args, known(x, *x.args), strict=True) if d is not None]
    rule = _RULES.get(type(x))
    if rule is None:
        raise UnsupportedError(f"te.gradient cannot differentiate {x!r} in {operation.name}")
    return rule(x, g)


def _choice(x: e.Call, g: Expr) -> list[tuple[Expr, Expr]]:
    if x.op == "likely":
        return [(x.args[0], g)]
    condition, a, b = x.args
    zero = op.const(0, g.dtype)
    return [(a, op.if_then_else(condition, g, zero)), (b, op.if_then_else(condition, zero, g))]


def _extremum(test: Callable[[Expr, Expr], Expr]) -> Callable[[Any, Expr], list[tuple[Expr, Expr]]]:
    def rule(x: Any, g: Expr) -> list[tuple[Expr, Expr]]:
        zero = op.const(0, g.dtype)
        first = test(x.a, x.b)
        return [(x.a, op.select(first, g, zero)), (x.b, op.select(first, zero, g))]

    return rule


def _select(x: e.Select, g: Expr) -> list[tuple[Expr, Expr]]:
    zero = op.const(0, g.dtype)
    return [(x.true_value, op.select(x.condition, g, zero)), (x.false_value, op.select(x.condition, zero, g))]


_RULES: dict[type, Callable[[Any, Expr], list[tuple[Expr, Expr]]]] = {
    e.Add: lambda x, g: [(x.a, g), (x.b, g)],
    e.Sub: lambda x, g: [(x.a, g), (x.b, op.negative(g))],
    e.Mul: lambda x, g: [(x.a, g * x.b), (x.b, g * x.a)],
    e.Div: lambda x, g: [(x.a, g / x.b), (x.b, op.negative(g * x / x.b))],
    e.Max: _extremum(op.greater),
    e.Min: _extremum(op.less),
    e.Select: _select,
    e.Cast: lambda x, g: [(x.value, op.cast(x.value.dtype, g))] if x.value.dtype.is_float else [],
}


def _one(x: Expr) -> Expr:
    return op.const(1, x.dtype)


def _constant(like: Expr, value: float) -> Expr:
    return op.const(value, like.dtype)


# The derivative by each argument (None: none), from the call's value and its arguments.
_CALLS: dict[str, Callable[..., tuple[Expr | None, ...]]] = {
    "exp": lambda y, x: (y,),
    "exp2": lambda y, x: (y * _constant(y, 0.6931471805599453),),
    "expm1": lambda y, x: (y + _one(y),),
    "log": lambda y, x: (_one(x) / x,),
    "log2": lambda y, x: (_constant(x, 1.4426950408889634) / x,),
    "log10": lambda y, x: (_constant(x, 0.4342944819032518) / x,),
    "log1p": lambda y, x: (_one(x) / (x + _one(x)),),
    "sqrt": lambda y, x: (_constant(y, 0.5) / y,),
    "rsqrt": lambda y, x: (_constant(y, -0.5) * y / x,),
    "tanh": lambda y, x: (_one(y) - y * y,),
    "sigmoid": lambda y, x: (y * (_one(y) - y),),
    "erf": lambda y, x: (_constant(x, 1.1283791670955126) * op.exp(op.negative(x * x)),),
    "erfc": lambda y, x: (_constant(x, -1.1283791670955126) * op.exp(op.negative(x * x)),),
    "silu": lambda y, x: (op.sigmoid(x) * (_one(x) + x - y),),
    "asin": lambda y, x: (_one(x) / op.sqrt(_one(x) - x * x),),
    "acos": lambda y, x: (_constant(x, -1) / op.sqrt(_one(x) - x * x),),
    "atan": lambda y, x: (_one(x) / (_one(x) + x * x),),
    "sinh": lambda y, x: (op.call_intrin(x.dtype, "cosh", x),),
    "cosh": lambda y, x: (op.call_intrin(x.dtype, "sinh", x),),
    "asinh": lambda y, x: (_one(x) / op.sqrt(x * x + _one(x)),),
    "acosh": lambda y, x: (_one(x) / op.sqrt(x * x - _one(x)),),
    "atanh": lambda y, x: (_one(x) / (_one(x) - x * x),),
    "sin": lambda y, x: (op.cos(x),),
    "cos": lambda y, x: (op.negative(op.sin(x)),),
    "tan": lambda y, x: (_one(y) + y * y,),
    "fabs": lambda y, x: (op.select(x < 0, op.const(-1, x.dtype), _one(x)),),
    "abs": lambda y, x: (op.select(x < 0, op.const(-1, x.dtype), _one(x)),),
    "pow": lambda y, x, p: (p * op.power(x, p - _one(p)), None if isinstance(p, e.FloatImm) else y * op.log(x)),
    "fma": lambda y, a, b, c: (b, a, _one(c)),
    "floor": lambda y, x: (None,),
    "ceil": lambda y, x: (None,),
    "round": lambda y, x: (None,),
    "trunc": lambda y, x: (None,),
}


# -------------------------------------------------------------------------------- gathering the shares of a read
def _share(operation: ComputeOp, load: ProducerLoad, derivative: Expr, adjoint: Tensor, extra: int) -> Tensor:
    """The gradient that `load.producer` gets through one read: element x sums over all positions that read x."""
    producer = load.producer
    own = (*operation.axis, *(operation.reduce_axis if operation.is_reduction else ()))
    position = [IterVar(None, Var(f"x{d}", i.dtype), IterType.DATA_PAR) for d, i in enumerate(load.indices)]
    solved, conditions = _solve(load.indices, [p.var for p in position], own)
    rest = {iv: _summed(iv) for iv in own if iv.var not in solved}
    fresh = {iv.var: new.var for iv, new in rest.items()}
    values = {v: substitute(x, fresh) for v, x in solved.items()} | dict(fresh)
    for iv in own:
        if iv.var in solved and iv.dom is not None:
            conditions += [values[iv.var] >= iv.dom.min, values[iv.var] < iv.dom.min + iv.dom.extent]
    conditions = [substitute(c, values) for c in conditions]
    at = [values[iv.var] for iv in operation.axis]
    axes = list(rest.values())

    def element(*i: Var) -> Expr:
        head, where = i[:extra], dict(zip([p.var for p in position], i[extra:], strict=True))
        rename = BodyRewriter(where)
        term = BodyRewriter({v: rename(x) for v, x in values.items()})(derivative)
        term = adjoint(*head, *[rename(x) for x in at]) * term
        guard = _simplified(op.all(*map(rename, conditions)), (*i, *fresh.values()), producer, axes)
        if not (isinstance(guard, IntImm) and guard.value):
            term = op.if_then_else(guard, term, op.const(0, term.dtype))
        return reducer.sum(term, axis=axes) if axes else term

    shape = (*adjoint.shape[:extra], *producer.shape)
    return _tensor(shape, element, f"{producer.name}.grad.{operation.name}")


def _summed(iv: IterVar) -> IterVar:
    return IterVar(iv.dom, Var(iv.name, iv.var.dtype), IterType.REDUCE)


def _solve(
    indices: Sequence[Expr], position: Sequence[Var], axes: Sequence[IterVar]
) -> tuple[dict[Var, Expr], list[Expr]]:
    """The axes' variables that `indices` = `position` determines, over the others, and the conditions that remain.

    An index that is a sum with some unsolved axis at the coefficient 1 or -1 is solved for the first such axis.
    """
    solved: dict[Var, Expr] = {}
    conditions: list[Expr] = []
    variables = [iv.var for iv in axes]
    for index, x in zip(indices, position, strict=True):
        index = substitute(index, solved)
        form = Linear.of(index)
        unit = next((v for v in variables if v not in solved and abs(form.terms.get(v, 0)) == 1), None)
        others = [a for a in form.terms if a is not unit]
        if unit is None or any(unit in collect_vars(a) for a in others):
            conditions.append(op.eq(index, x))
            continue
        rest = Linear({a: c for a, c in form.terms.items() if a is not unit}, form.constant).to_expr(index.dtype)
        value = x - rest if form.terms[unit] == 1 else rest - x
        solved = {v: substitute(s, {unit: value}) for v, s in solved.items()} | {unit: value}
        conditions = [substitute(c, {unit: value}) for c in conditions]
    return solved, conditions


def _simplified(condition: Expr, variables: Sequence[Var], producer: Tensor, axes: Sequence[IterVar]) -> Expr:
    """The condition, what the ranges of the indices and of the summed axes prove left out."""
    analyzer = Analyzer()
    for var, size in zip(variables[len(variables) - len(axes) - producer.ndim :], producer.shape, strict=False):
        analyzer.bind(var, (op.const(0, size.dtype), size))
    for iv in axes:
        if iv.dom is not None:
            analyzer.bind(iv.var, (iv.dom.min, iv.dom.extent))
    return analyzer.simplify(condition)
