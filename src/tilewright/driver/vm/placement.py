"""Placement of tensor operators on a device with a memory of its own, or on the host beside the operators there.

    %0 = conv2d(%x); %1 = non_max_suppression(%0); %2 = add(%1, 1)        conv2d on the device, add on the host

What is least is the sum of the operators' times, by the figures of both machines, and of the copies between them, each
value once in a direction: a minimum cut. Operators move to the host only in scopes in which some of its operators
stand, or where `on_device` or `device_copy` says so; these two are no operators of a program. Products stay on the
device of the target unless they are marked.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.backend import Backend
from tilewright.driver.vm.scopes import Scope, Scopes
from tilewright.relay.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType, Type, walk_type
from tilewright.relay.ir.visitor import children, post_order
from tilewright.relay.op.cost import flops
from tilewright.relay.transform.memory.minimum_cut import UNCUT, minimum_cut
from tilewright.relay.transform.simplify.make import is_call
from tilewright.tir.size_hint import size_hint

#: Capacities are whole nanoseconds.
_NANOSECONDS = 1e9
_DEVICE, _HOST = "the device", "the host"


@dataclass(frozen=True)
class Placement:
    """The two machines, and the operators of a function whose device is stated, True for the host."""

    device: Backend
    host: Backend
    stated: Mapping[Expr, bool]

    @staticmethod
    def of(device: Backend, host: Backend, function: Function) -> Placement:
        """As the marks in a function's body say."""
        stated: dict[Expr, bool] = {}
        for node in post_order(function.body):
            if is_call(node, "on_device"):
                stated[_marked(node)] = is_host(node.attrs.device)  # type: ignore[attr-defined]
            elif is_call(node, "device_copy"):
                stated.setdefault(_marked(node), is_host(node.attrs.src_device))  # type: ignore[attr-defined]
            else:
                for kid in children(node):
                    if is_call(kid, "device_copy"):
                        stated.setdefault(node, is_host(kid.attrs.dst_device))  # type: ignore[attr-defined]
        return Placement(device, host, stated)

    def on_host(self, scope: Scope, scopes: Scopes, operators: set[Expr]) -> set[Expr]:
        """Those of the tensor `operators` of a scope that the host computes."""
        stands_there = any(isinstance(node, Call) and _is_host_operator(node, operators) for node in scope.nodes)
        if not stands_there and not any(self.stated.get(node) for node in scope.nodes):
            return set()
        edges = _Edges(scopes, operators, scope.depth == 0)
        for node in scope.nodes:
            if node in operators:
                assert isinstance(node, Call)
                edges.operator(node, self._nanoseconds(node, self.device), self._nanoseconds(node, self.host))
                if node in self.stated or _pattern(node) is OpPattern.OUT_ELEMWISE_FUSABLE:
                    edges.state(node, self.stated.get(node, False))
            elif isinstance(node, Call) and _is_host_operator(node, operators):
                edges.state(node, on_host=True)
        edges.reads(scope)
        reached = minimum_cut(edges.capacities(self._copy), _DEVICE, _HOST)
        return {node for node in scope.nodes if node in operators and node not in reached}

    def _nanoseconds(self, call: Call, backend: Backend) -> int:
        moved = sum(_bytes(one.checked_type) for one in (*call.args, call))
        alone = _pattern(call) > OpPattern.INJECTIVE
        return round(backend.operator_seconds(size_hint(flops(call)), moved, alone) * _NANOSECONDS) + 1

    def _copy(self, value: Expr) -> int:
        return round(self.device.copy_seconds(_bytes(value.checked_type)) * _NANOSECONDS) + 1


class _Edges:
    """The capacities of a scope's cut: of its operators, and of each value whose reader may be elsewhere."""

    def __init__(self, scopes: Scopes, operators: set[Expr], is_body: bool) -> None:
        self._scopes, self._operators, self._is_body = scopes, operators, is_body
        self._own: dict[tuple[Hashable, Hashable], int] = {}
        self._readers: dict[Expr, list[Hashable]] = {}

    def operator(self, node: Expr, on_device: int, on_host: int) -> None:
        """Enter an operator, by its time on either machine."""
        self._own[_DEVICE, node], self._own[node, _HOST] = on_host, on_device

    def state(self, node: Expr, on_host: bool) -> None:
        """Have a node stay on a machine."""
        self._own[(node, _HOST) if on_host else (_DEVICE, node)] = UNCUT

    def reads(self, scope: Scope) -> None:
        """Enter the values that are read in a scope; those that come into or leave the function are on the host."""
        for node in scope.nodes:
            if isinstance(node, Call) and (node in self._operators or (node, _HOST) in self._own):
                for arg in node.args:
                    self._read(arg, node)
        if self._is_body:
            self._read(scope.result, _HOST)

    def _read(self, expr: Expr, reader: Hashable) -> None:
        value = self._scopes.value(expr)
        if isinstance(value, Tuple):
            for field in value.fields:
                self._read(field, reader)
            return
        if isinstance(value, TupleGetItem):
            self._read(value.tuple_value, reader)
        elif value in self._operators or (value, _HOST) in self._own or (self._is_body and isinstance(value, Var)):
            self._readers.setdefault(value, []).append(reader)

    def capacities(self, copy: Any) -> dict[tuple[Hashable, Hashable], int]:
        """All edges; a value is copied once for all its readers on the other machine."""
        found = dict(self._own)
        for value, readers in self._readers.items():
            cost = copy(value)
            there, back = (value, "to host"), (value, "to device")
            producer: Hashable = _HOST if isinstance(value, Var) else value
            found[producer, there], found[back, producer] = cost, cost
            for reader in readers:
                found[there, reader], found[reader, back] = UNCUT, UNCUT
        return found


def is_host(device: str) -> bool:
    """True for a device that is a processor, as "cpu" and "cpu(0)"."""
    return device.startswith(("cpu", "llvm"))


def states_host(mod: IRModule) -> bool:
    """True where some operator of a module is to be computed on the host, and so apart from its device."""
    for function in mod.functions.values():
        for node in post_order(function.body):
            for name, key in (("on_device", "device"), ("device_copy", "src_device"), ("device_copy", "dst_device")):
                if is_call(node, name) and is_host(str(node.attrs[key])):  # type: ignore[attr-defined]
                    return True
    return False


def _marked(node: Expr) -> Expr:
    """The operator below marks."""
    while is_call(node, "on_device", "device_copy"):
        (node,) = children(node)
    return node


def _pattern(call: Call) -> OpPattern:
    assert isinstance(call.op, Op)
    return call.op.pattern


def _is_host_operator(node: Call, operators: set[Expr]) -> bool:
    """True for a call that the host computes and that reads elements; calls of functions pass values on."""
    return isinstance(node.op, Op) and node not in operators


def _bytes(type_: Type) -> int:
    """The bytes of the numbers in a type, of symbolic sizes likely ones."""
    leaves = [leaf for leaf in walk_type(type_) if isinstance(leaf, TensorType) and not leaf.dtype.is_string]
    return sum(size_hint(leaf.nbytes) for leaf in leaves)
