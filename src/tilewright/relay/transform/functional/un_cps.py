"""A function in continuation-passing style made one that returns: it is given the continuation that does nothing.

Before: fn [T](%x: float32, %k: fn (float32) -> T) -> T { let %y = exp(%x); %k(%y) }
After:  fn (%x: float32) -> float32 { %f(%x, fn (%result) { %result }) }        %f: the function before

Parameters and results that are functions themselves stay in the other style.
"""

from __future__ import annotations

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.expr import Call, Function, Var
from tilewright.relay.ir.type import FuncType, TypeVar, substitute_type
from tilewright.relay.ir.type_of import type_of


def un_cps(func: Function) -> Function:
    """`func` without its last parameter, the continuation, as `to_cps` adds it; typed.

    Raises `TypeMismatchError` if it does not end by a call of its last parameter's type.
    """
    kind = type_of(func)
    assert isinstance(kind, FuncType)
    last = kind.arg_types[-1] if kind.arg_types else None
    answer = kind.ret_type
    fits = isinstance(last, FuncType) and len(last.arg_types) == 1 and last.ret_type == answer
    if not fits or not isinstance(answer, TypeVar):
        raise TypeMismatchError(f"un_cps: {kind} does not pass its result on to a last parameter fn (…) -> T")
    assert isinstance(last, FuncType)
    result_type = last.arg_types[0]
    params = [Var(p.name, t) for p, t in zip(func.params, kind.arg_types[:-1])]
    result = Var("result", result_type)
    body = Call(func, [*params, Function([result], result, result_type)])
    kept = [var for var in kind.type_params if var is not answer]
    made = Function(params, body, substitute_type(result_type, {answer: result_type}), kept, func.attrs)
    type_of(made)
    return made
