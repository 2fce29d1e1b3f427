"""External code generators: what they take over of a graph, and how the program that is left calls them.

    register_external(ExternalCodegen("mylib", supported={"nn.dense": always}, lower=to_mylib))
    mod = annotate_target(mod, ["mylib"]); mod = merge_compiler_regions(mod); mod = partition_graph(mod)
    exe = tilewright.compile(mod)

`partition_graph` makes a function with the attribute `Compiler` of each region; `lower_external` passes it to `lower`
of the code generator of that name, which returns what computes it: usually a call of a host operator. The code
generator "host" is one such: it runs its regions in NumPy, and so in the BLAS library that NumPy was built with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import InternalError, UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import FuncType, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import post_order, rewrite, substitute
from tilewright.relay.op.host import plain_attrs, register_host
from tilewright.runtime.host_ops.external import STEPS
from tilewright.support import plugins
from tilewright.support.suggestion import suggestion

#: True for a call that the code generator takes; the types of its arguments are known.
Predicate = Callable[[Call], bool]
#: (the function of a region, its arguments) -> an expression of the same value.
Lower = Callable[[Function, Sequence[Expr]], Expr]


@dataclass(frozen=True)
class ExternalCodegen:
    """A code generator: the operators it takes by name (composite functions by their name, too), and its `lower`."""

    name: str
    lower: Lower
    supported: Mapping[str, Predicate] = field(default_factory=dict)


_CODEGENS: dict[str, ExternalCodegen] = {}


def register_external(codegen: ExternalCodegen) -> ExternalCodegen:
    """Enter a code generator into the table. A second one of a name is an internal error."""
    if codegen.name in _CODEGENS:
        raise InternalError(f"the external code generator {codegen.name!r} is registered twice")
    _CODEGENS[codegen.name] = codegen
    plugins.note("code generator", codegen.name, codegen)
    return codegen


def find_external(name: str) -> ExternalCodegen:
    """The code generator called `name`; `UnsupportedError` with the ones there are."""
    if name not in _CODEGENS:
        raise UnsupportedError(
            f"there is no external code generator {name!r}{suggestion(name, sorted(_CODEGENS))}; "
            "register one with relay.transform.partition.external.register_external"
        )
    return _CODEGENS[name]


def take_operator(name: str, op_name: str, predicate: Predicate) -> None:
    """Let the code generator `name` take calls of one more operator.

    One that is not there yet is made; it marks and partitions, and refuses to compile what it took.
    """

    def refuse(function: Function, args: Sequence[Expr]) -> Expr:
        raise UnsupportedError(
            f"nothing compiles what {name!r} takes: register the code generator with "
            "tilewright.relay.transform.partition.external.register_external before its operators"
        )

    known = _CODEGENS.get(name) or ExternalCodegen(name, refuse)
    _CODEGENS[name] = ExternalCodegen(name, known.lower, {**known.supported, op_name: predicate})
    plugins.note("code generator", name, _CODEGENS[name])


def takes(codegen: ExternalCodegen, call: Call) -> bool:
    """True if `codegen` takes the call: of an operator, or of a composite function that is named for it."""
    if isinstance(call.op, Function):
        name = str(call.op.attrs.get("Composite", ""))
        return name.startswith(f"{codegen.name}.") and codegen.supported.get(name, always)(call)
    predicate = codegen.supported.get(call.op.name) if isinstance(call.op, Op) else None
    return predicate is not None and predicate(call)


def always(_: Call) -> bool:
    """Every call is taken."""
    return True


# ---------------------------------------------------------------------------------------- the code generator "host"
def _plain_floats(call: Call) -> bool:
    types = [leaf for value in (*call.args, call) for leaf in tensor_types(type_of(value))]
    floats = all(type_.is_static and type_.dtype in ("float32", "float64") for type_ in types)
    layout_is_plain = call.attrs.get("weight_layout", "NC") in ("", "NC")
    return floats and layout_is_plain and not call.attrs.get("out_dtype")


def _host_program(func: Function, args: Sequence[Expr]) -> Expr:
    """One call of the host operator that runs a list of steps: [operator, operand numbers, attributes].

    A tuple among the operands is the list of its numbers.
    """
    numbers: dict[Expr, int] = {param: index for index, param in enumerate(func.params)}
    operands = list(args)
    body = in_place(func.body)
    nodes = [node for node in post_order(body) if not isinstance(node, Tuple)]
    for node in nodes:
        if isinstance(node, Constant):
            numbers[node] = len(operands)
            operands.append(node)
    steps: list[list[Any]] = []
    for node in nodes:
        if isinstance(node, Call):
            assert isinstance(node.op, Op)
            numbers[node] = len(operands) + len(steps)
            steps.append([node.op.name, [_numbered(arg, numbers) for arg in node.args], plain_attrs(node.attrs)])
    results = body.fields if isinstance(body, Tuple) else (body,)
    type_ = func.checked_type
    assert isinstance(type_, FuncType)
    attrs = {"steps": steps, "results": [numbers[value] for value in results], "ret_type": type_.ret_type}
    return Call(_HOST_PROGRAM, operands, attrs)


def _numbered(arg: Expr, numbers: Mapping[Expr, int]) -> int | list[int]:
    return [numbers[field] for field in arg.fields] if isinstance(arg, Tuple) else numbers[arg]


_HOST_PROGRAM = register_host(
    "external.host", num_inputs=-1, type_rule=lambda types, attrs: attrs["ret_type"], attributes=None
)

register_external(ExternalCodegen("host", _host_program, dict.fromkeys(STEPS, _plain_floats)))


def in_place(body: Expr) -> Expr:
    """`body` with the insides of composite functions where they are called."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Function) or "Composite" not in node.op.attrs:
            return None
        return substitute(node.op.body, dict(zip(node.op.params, node.args, strict=True)))

    return rewrite(body, rule)


def is_external(expr: object) -> bool:
    """True for the function of a region that an external code generator compiles."""
    return isinstance(expr, Function) and "Compiler" in expr.attrs
