"""Several runs of a model as one graph, whose parts may overlap: what one run computes waits for no other run.

Before: fn (%x) { f(%x) }
After:  fn (%x_0, %x_1) { (f(%x_0), f(%x_1)) }                                              (two runs)
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TupleType
from tilewright.relay.ir.visitor import substitute


def repeat_main(mod: IRModule, runs: int) -> IRModule:
    """The module whose `main` takes the inputs of `runs` runs, one run after the other, and returns all their results.

    Names of inputs and outputs end with the number of the run. What does not depend on inputs is there once.
    """
    if runs == 1:
        return mod
    main = infer_type(mod)["main"]
    params: list[Var] = []
    results: list[Expr] = []
    for number in range(runs):
        own = [Var(f"{param.name}_{number}", param.checked_type) for param in main.params]
        body = substitute(main.body, dict(zip(main.params, own)))
        params += own
        results += _leaves(body, main.body)
    names = main.attrs.get("output_names") or [f"output{i}" for i in range(len(results) // runs)]
    attrs = {**main.attrs, "output_names": tuple(f"{name}_{number}" for number in range(runs) for name in names)}
    return infer_type(mod.with_function("main", Function(params, Tuple(results), attrs=attrs)))


def _leaves(body: Expr, typed: Expr) -> list[Expr]:
    """The results of one run; nested tuples are taken apart no further than their first level."""
    if isinstance(body, Tuple):
        return list(body.fields)
    type_ = typed.checked_type
    if isinstance(type_, TupleType):
        return [TupleGetItem(body, index) for index in range(len(type_.fields))]
    return [body]
