"""A slow and simple evaluator of the whole language: each operator's NumPy `reference`, one call after another.

It is the yardstick of the graph passes, the frontends and the virtual machine; the compiler does not use it.

A call of a function is a frame on an explicit stack, and a call in tail position takes the frame of its caller, so
neither a deep graph nor a recursion of a million steps meets a limit of Python. Within a frame each node is
evaluated once, and only where its value is needed: arguments left to right, the branch taken, the clause that fits.

Symbolic dimensions are known from the arguments of a function; attributes that name them are computed when the call is
made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError, InternalError, UnsupportedError
from tilewright.relay.ir.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from tilewright.relay.ir.call_reference import call_reference, fits
from tilewright.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import attr_exprs, map_attrs, size_vars, substitute_dims
from tilewright.relay.ir.type import Dim, TensorType, TupleType, Type
from tilewright.relay.ir.values import Closure, ConstructorValue, RefValue, Value, flatten
from tilewright.relay.ir.visitor import children, free_vars
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.tir.expr import SizeVar
from tilewright.tir.visitor import collect_vars

__all__ = ["Closure", "ConstructorValue", "RefValue", "Value", "evaluate", "flatten", "interpret"]

#: Values of expressions, and of the symbolic dimensions that are known.
Environment = dict[Any, Value]


def interpret(
    mod: IRModule | Function | Expr, inputs: Mapping[str, Any] | Sequence[Any], check: bool = True
) -> list[np.ndarray[Any, Any]]:
    """The outputs of `mod["main"]` on `inputs` (by parameter name or in order), tuples flattened to one list.

    With `check`, an operator whose reference returns another shape or dtype than its type rule is an internal error.
    """
    return flatten(evaluate(mod, inputs, check))


def evaluate(
    mod: IRModule | Function | Expr, inputs: Mapping[str, Any] | Sequence[Any] = (), check: bool = True
) -> Value:
    """As `interpret`, but the value as it is: an array, a tuple, a `ConstructorValue`, a `RefValue`, a `Closure`.

    Raises InputError where an input is missing or does not fit its type, or a `match?` has no clause for a value.
    """
    mod = expand_calls(mod if isinstance(mod, IRModule) else IRModule.from_expr(mod))
    main = mod["main"]
    env: Environment = {}
    sizes: dict[Any, int] = {}
    for index, param in enumerate(main.params):
        key: Any = param.name if isinstance(inputs, Mapping) else index
        try:
            value = inputs[key]
        except (KeyError, IndexError):
            raise InputError(f"no value for the input {param.name!r}") from None
        env[param] = _fed(param.name, param.checked_type, value, sizes)
    env.update(_known(sizes))
    return _Interpreter(mod, check).run(main.body, env)


def _fed(name: str, type_: Type, value: Any, sizes: dict[Any, int]) -> Value:
    if isinstance(type_, TensorType):
        value = np.asarray(value)
    elif isinstance(type_, TupleType) and isinstance(value, Sequence) and len(value) == len(type_.fields):
        return tuple([_fed(f"{name}.{i}", t, v, sizes) for i, (t, v) in enumerate(zip(type_.fields, value))])
    if not fits(value, type_, sizes):
        got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        raise InputError(f"the input {name!r} is {got}, not {type_}")
    return value


def _known(sizes: dict[Any, int]) -> Environment:
    """Of the extents that values were met with, those that are variables."""
    return {dim: size for dim, size in sizes.items() if isinstance(dim, SizeVar)}


def _size(op: Any, dim: Dim, env: Environment) -> int:
    """An expression in the attributes of a call of an operator as a number."""
    size = substitute_dims(dim, {name: env[name] for name in collect_vars(dim) if name in env})
    if not isinstance(size, int):
        raise UnsupportedError(
            f"{op.name} needs the size {dim}, which no input of its function determines; fix it first"
        )
    return size


class _Frame:
    """One call of a function under evaluation: `env` has the variables and every node that was evaluated."""

    __slots__ = ("chosen", "env", "root", "stack")

    def __init__(self, root: Expr, env: Environment) -> None:
        self.root = root
        self.env = env
        self.stack = [root]
        self.chosen: dict[Expr, Expr] = {}


class _Interpreter:
    """Evaluates expressions of one module."""

    def __init__(self, mod: IRModule, check: bool) -> None:
        self.mod = mod
        self.check = check
        self._free: dict[Function, list[Any]] = {}

    def run(self, root: Expr, env: Environment) -> Value:
        """The value of `root`."""
        frames = [_Frame(root, env)]
        while True:
            frame = frames[-1]
            if not frame.stack:
                frames.pop()
                if not frames:
                    return frame.env[frame.root]
                frames[-1].env[frames[-1].stack.pop()] = frame.env[frame.root]
                continue
            node = frame.stack[-1]
            if node in frame.env:
                frame.stack.pop()
                continue
            needed = _NEEDED.get(type(node), _all_children)(frame, node)
            if needed is not None:
                missing = [kid for kid in needed if kid not in frame.env]
                if missing:
                    frame.stack.extend(reversed(missing))
                else:
                    self._step(frames, frame, node)

    def _step(self, frames: list[_Frame], frame: _Frame, node: Expr) -> None:
        """Evaluate `node`, whose operands are known; a call of a function gets a frame instead."""
        if isinstance(node, Call) and isinstance(node.op, Expr):
            callee = self._callee(node.op, frame.env)
            args = [frame.env[arg] for arg in node.args]
            if isinstance(callee, Closure):
                env = dict(callee.captured)
                sizes: dict[Any, int] = {}
                for param, arg in zip(callee.function.params, args, strict=True):
                    env[param] = arg
                    fits(arg, param.checked_type, sizes)
                env.update(_known(sizes))
                if len(frame.stack) == 1:
                    frames.pop()
                frames.append(_Frame(callee.function.body, env))
                return
            frame.env[node] = ConstructorValue(callee, tuple(args))
        elif node in frame.chosen:
            frame.env[node] = frame.env[frame.chosen[node]]
        else:
            frame.env[node] = _EVALUATE[type(node)](self, node, frame.env)
        frame.stack.pop()

    def _callee(self, op: Expr, env: Environment) -> Closure | Constructor:
        if isinstance(op, GlobalVar):
            return Closure(self.mod[op], {})
        if isinstance(op, Constructor):
            return op
        return self.closure(op, env) if isinstance(op, Function) else env[op]

    def closure(self, func: Function, env: Environment) -> Closure:
        """`func` with what it captures. A variable that is bound to this closure itself follows (see `_let`)."""
        if func not in self._free:
            self._free[func] = [*free_vars(func), *size_vars(func)]
        return Closure(func, {var: env[var] for var in self._free[func] if var in env})

    def operator(self, node: Call, env: Environment) -> Value:
        """Apply an operator."""
        args = [env[arg] for arg in node.args]
        if next(attr_exprs(node.attrs), None) is None:
            return call_reference(node, args, self.check)
        return call_reference(node, args, self.check, map_attrs(node.attrs, lambda dim: _size(node.op, dim, env)))


# --------------------------------------------------------------- the operands that a node needs next; None: start again
Needed = Sequence[Expr] | None


def _all_children(_: _Frame, node: Expr) -> Needed:
    return children(node)


def _continue_with(frame: _Frame, node: Expr, rest: Expr) -> Needed:
    """The value of `node` is that of `rest`. Where it is the frame's result, `rest` replaces it on the stack."""
    if len(frame.stack) > 1:
        frame.chosen[node] = rest
        return (rest,)
    frame.root = frame.stack[0] = rest
    return None


def _if(frame: _Frame, node: If) -> Needed:
    if node.cond not in frame.env:
        return (node.cond,)
    return _continue_with(frame, node, node.true_branch if frame.env[node.cond] else node.false_branch)


def _let(frame: _Frame, node: Let) -> Needed:
    if node.value not in frame.env:
        return (node.value,)
    if node not in frame.chosen:
        value = frame.env[node.var] = frame.env[node.value]
        if isinstance(value, Closure) and value.function is node.value:
            value.captured[node.var] = value
    return _continue_with(frame, node, node.body)


def _match(frame: _Frame, node: Match) -> Needed:
    if node.data not in frame.env:
        return (node.data,)
    if node in frame.chosen:
        return (frame.chosen[node],)
    value = frame.env[node.data]
    for clause in node.clauses:
        bound: Environment = {}
        if _matches(clause.lhs, value, bound):
            frame.env.update(bound)
            return _continue_with(frame, node, clause.rhs)
    raise InputError(f"no clause of a match fits the value {value!r}")


def _matches(pattern: Pattern, value: Value, bound: Environment) -> bool:
    if isinstance(pattern, PatternVar):
        bound[pattern.var] = value
        return True
    if isinstance(pattern, PatternConstructor):
        if value.name != pattern.constructor.name:
            return False
        return all(_matches(part, field, bound) for part, field in zip(pattern.patterns, value.fields, strict=True))
    if isinstance(pattern, PatternTuple):
        return all(_matches(part, field, bound) for part, field in zip(pattern.patterns, value, strict=True))
    return True


def _nothing(_: _Frame, __: Function) -> Needed:
    return ()


_NEEDED: dict[type, Callable[..., Needed]] = {If: _if, Let: _let, Match: _match, Function: _nothing}


# -------------------------------------------------------------------------------------------------- values of nodes
def _unbound(_: _Interpreter, node: Var, env: Environment) -> Value:
    raise InternalError(f"the variable {node.name!r} is used where nothing binds it")


def _write(_: _Interpreter, node: RefWrite, env: Environment) -> Value:
    env[node.ref].value = env[node.value]
    return ()


_EVALUATE: dict[type, Callable[..., Value]] = {
    Var: _unbound,
    Constant: lambda _, node, env: node.data.view(np.ndarray),
    Tuple: lambda _, node, env: tuple([env[field] for field in node.fields]),
    TupleGetItem: lambda _, node, env: env[node.tuple_value][node.index],
    Call: _Interpreter.operator,
    Function: _Interpreter.closure,
    GlobalVar: lambda self, node, env: Closure(self.mod[node], {}),
    Constructor: lambda _, node, env: node,
    RefCreate: lambda _, node, env: RefValue(env[node.value]),
    RefRead: lambda _, node, env: env[node.ref].value,
    RefWrite: _write,
}
