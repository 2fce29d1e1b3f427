"""A module with control flow to bytecode for a `VirtualMachine`, and its segments through the graph passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tilewright.backend import Backend
from tilewright.backend.heterogeneous import HeterogeneousBackend
from tilewright.driver.build import BuiltSegments, ModelGraphs
from tilewright.driver.plan import common_manifest, weights_manifest
from tilewright.driver.vm.bytecode import compile_program
from tilewright.driver.vm.placement import Placement
from tilewright.driver.vm.program import ProgramBuilder
from tilewright.driver.vm.segments import is_tensor_operator
from tilewright.relay.ir.adt import Match
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
)  # fmt: skip
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import post_order
from tilewright.runtime.manifest import LoadedConstant, Manifest, Part
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.support import trace

Optimize = Callable[[IRModule], IRModule]


@dataclass(frozen=True)
class Host:
    """The host beside a device: its backend, and the graph passes of its segments."""

    backend: Backend
    optimize: Optimize


def bytecode_graphs(
    mod: IRModule,
    backend: Backend,
    optimize: Optimize,
    kind: type[VirtualMachine] = VirtualMachine,
    host: Host | None = None,
) -> ModelGraphs:
    """The bytecode of a module whose types are known, and its segments after the graph passes `optimize`.

    `kind` may be `DebugMachine`; every operator then is a segment of its own. With a `host` some operators are computed
    there.
    """
    with trace.span("bytecode"):
        builder = ProgramBuilder(
            mod, kind is DebugMachine, None if host is None else partial(_placement, backend, host)
        )
        program = compile_program(builder)
    on_host = frozenset(builder.on_host)
    if host is not None and on_host:
        backend = HeterogeneousBackend(backend, host.backend)
    segments = [
        (f"segment{i}", (host.optimize if host is not None and i in on_host else optimize)(IRModule.from_expr(body)))
        for i, body in enumerate(builder.segments)
    ]

    def manifest(built: BuiltSegments) -> Manifest:
        return Manifest(
            **common_manifest(mod["main"], backend),
            executor=kind.executor,
            segments=tuple(built.plans),
            program=program,
            packed=tuple(builder.packed),
            constants=tuple(_constant(constant, built.constants) for constant in builder.constants),
            weights=weights_manifest(built.constants),
            parts=_parts(backend, len(segments), on_host),
        )

    loaded = [constant for constant in builder.constants if constant.data.dtype != object]
    return ModelGraphs(backend, segments, manifest, loaded, backend.plans_in_code, on_host, runs_bytecode=True)


def _placement(device: Backend, host: Host, function: Function) -> Placement:
    return Placement.of(device, host.backend, function)


def _parts(backend: Backend, count: int, on_host: frozenset[int]) -> tuple[Part, ...]:
    """The manifest's division of `count` segments."""
    if not isinstance(backend, HeterogeneousBackend):
        return ()
    device, host = (part.device for part in backend.parts)
    there = tuple(number for number in range(count) if number not in on_host)
    return Part(device=device, segments=there), Part(device=host, segments=tuple(sorted(on_host)))


def segment_modules(mod: IRModule) -> list[IRModule]:
    """The straight graphs of tensor operators that a module with control flow is made of."""
    builder = ProgramBuilder(mod, one_by_one=False)
    compile_program(builder)
    return [IRModule.from_expr(body) for body in builder.segments]


def _constant(constant: Constant, offsets: Mapping[Constant, int]) -> LoadedConstant:
    """The manifest's entry of a constant that instructions load: among the weights, or text in place."""
    shape = constant.data.shape
    if constant.data.dtype == object:
        return LoadedConstant(shape=shape, value=tuple(str(item) for item in constant.data.reshape(-1)))
    return LoadedConstant(shape=shape, dtype=str(constant.tensor_type.dtype), offset=offsets[constant])


def needs_machine(mod: IRModule) -> str:
    """The first construct in `main` that needs the virtual machine, in words; empty for a straight graph of tensor
    operators.
    """
    main = mod["main"]
    for param in main.params:
        if not isinstance(param.checked_type, TensorType):
            return f"the input {param.name!r}, which is no tensor but of type {param.checked_type}"
        if param.checked_type.has_any:
            return f"the input {param.name!r}, which has unknown dimensions: {param.checked_type}"
    for node in post_order(main.body):
        if isinstance(node, Call) and isinstance(node.op, Function) and node.op.is_primitive:
            continue
        if isinstance(node, Call) and not is_tensor_operator(node):
            return _words(node)
        if isinstance(node, Constant) and node.data.dtype.hasobject:
            return "a constant of texts"
        if not isinstance(node, Call | Var | Constant | Tuple | TupleGetItem):
            return _CONSTRUCTS.get(type(node), type(node).__name__) + _where(node)
    return ""


_CONSTRUCTS: dict[type, str] = {
    If: "a branch",
    Let: "a let",
    Match: "a match on a data type",
    Function: "a function that is a value",
    GlobalVar: "a function that is a value",
    RefCreate: "a reference",
    RefRead: "a reference",
    RefWrite: "a reference",
}


def _words(call: Call) -> str:
    """A description of a call that no kernel can compute."""
    if isinstance(call.op, GlobalVar):
        return f"the call of @{call.op.name}{_where(call)}"
    if not isinstance(call.op, Op):
        return f"the call of a function that is a value{_where(call)}"
    reason = "the shape of whose result depends on values" if call.op.data_dependent else "which runs on the host"
    return f"the operator {call.op.name}{_where(call)}, {reason}"


def _where(node: Expr) -> str:
    if isinstance(node, If) and isinstance(node.cond, Call) and node.cond.span:
        return f" on the result of the node {node.cond.span!r}"
    return f" of the node {node.span!r}" if isinstance(node, Call) and node.span else ""
