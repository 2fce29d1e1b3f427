"""The walk over an exported graph: nodes are converted in order, problems collected."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InternalError, UnsupportedError
from tilewright.frontend.builders.complex_numbers import Complex
from tilewright.frontend.finish import Finisher
from tilewright.frontend.torch.checks import Checks
from tilewright.frontend.torch.computing import converted
from tilewright.frontend.torch.control import convert_cond, convert_while
from tilewright.frontend.torch.creation import convert_assertion
from tilewright.frontend.torch.families import find_converter
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.random_numbers import Draws
from tilewright.frontend.torch.types import Sizes
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type_of import tensor_type_of

#: A weight whose elements share memory may take so many times that memory as a constant, and this in any case.
_MOST_REPEATED, _ALWAYS_ALLOWED = 1024, 1 << 28

#: Operators whose results PyTorch itself says to have another shape than they have: along any axis as along the first.
_MISDESCRIBED = ("aten.unique_consecutive",)


class GraphImporter:
    """Converts the nodes of one graph; `problems` has one line for each node that cannot be converted.

    `functions` are those that loops became. `missing` counts the operators without a converter, with the name of the
    first node of each.
    """

    def __init__(self, draws: Draws | None = None, checks: Checks | None = None) -> None:
        self.sizes = Sizes()
        self.draws = draws or Draws()
        self.checks = checks
        self.values: dict[Any, Any] = {}
        self.functions: dict[GlobalVar, Function] = {}
        self.problems: list[str] = []
        self.missing: dict[str, tuple[int, str]] = {}
        self._lost: dict[Any, str | None] = {}
        self._finisher = Finisher()

    def run(self, graph: Any) -> None:
        """Convert every call of `graph` whose operands are known."""
        for node in graph.nodes:
            if node.op == "get_attr":
                self._take_constant(node, graph)
            if node.op != "call_function" or node in self.values:
                continue
            if find_converter(str(node.target)) is convert_assertion:
                self._note_assertion(node.target, node.args)
                self.values[node] = None
                continue
            lost = [operand for operand in node.all_input_nodes if operand in self._lost]
            if lost:
                self._lost[node] = None
                self._count_if_missing(node)
                self.problems.extend(self._lost[operand] for operand in lost if self._lost[operand])  # type: ignore[misc]
                continue
            try:
                self.values[node] = self._convert(node)
                self._note_sizes(node)
            except UnsupportedError as error:
                late = _is_number(node.meta.get("val"))  # a problem only for who reads it: most are for assertions
                self._lost[node] = str(error) if late else None
                if not late and not self._count_if_missing(node):
                    self.problems.append(str(error))

    def _note_sizes(self, node: Any) -> None:
        """The sizes that the result of a node, or the first of several, is the first to have."""
        value, made = node.meta.get("val"), self.values[node]
        pairs = zip(value, made) if isinstance(value, tuple | list) and isinstance(made, list) else [(value, made)]
        for one, expr in pairs:
            self.sizes.note(one, expr)

    def _take_constant(self, node: Any, graph: Any) -> None:
        """A tensor that the graph's module holds; the graphs of branches, which it holds too, are for their readers."""
        # torch is optional
        import torch

        held = getattr(graph.owning_module, node.target, None)
        if isinstance(held, torch.Tensor):
            self.values[node] = value_of(held, node.name)

    def _count_if_missing(self, node: Any) -> bool:
        import torch

        if not wants_converter(node):
            return False
        target = str(node.target)
        if isinstance(node.target, torch._ops.OpOverload) and reads_complex(node):
            target += " of complex numbers"
        if isinstance(node.target, torch._ops.OpOverload):
            if converter_of(node) is not None:
                return False
        elif node.target in (operator.getitem, torch.ops.higher_order.cond, torch.ops.higher_order.while_loop):
            return False
        count, first = self.missing.get(target, (0, node.name))
        self.missing[target] = (count + 1, first)
        return True

    def _convert(self, node: Any) -> Any:
        """The Relay value of a node: an expression, a list of them, a dimension, or None for an assertion."""
        import torch

        value = node.meta.get("val")
        if not wants_converter(node):
            return self.number(value, node.name)
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        higher = torch.ops.higher_order
        if node.target is higher.with_effects:
            return self._in_order(node)
        if node.target in (higher.cond, higher.while_loop):
            return (convert_cond if node.target is higher.cond else convert_while)(self, node)
        if not isinstance(node.target, torch._ops.OpOverload):
            raise UnsupportedError(f"{node.target} ({node.name}) is not supported")
        converter = converter_of(node)
        if converter is None:
            raise UnsupportedError(f"{node.target} ({node.name}) is not supported")
        call = self._node(node, value)
        if self.checks is not None:
            self.checks.indices(call, node)
        return self._finish_all(converted(converter, call), call)

    def _in_order(self, node: Any) -> list[Any]:
        """A call whose position among others a token keeps: an assertion, of which nothing is left but the token."""
        if find_converter(str(node.args[1])) is not convert_assertion:
            raise UnsupportedError(f"{node.args[1]} ({node.name}), an operator with effects, is not supported")
        self._note_assertion(node.args[1], node.args[2:])
        return [None, None]

    def _note_assertion(self, target: Any, args: Sequence[Any]) -> None:
        """Have what an assertion looks at checked, where it is known and the graph's checks are gathered."""
        if self.checks is not None and args and args[0] in self.values:
            self.checks.assertion(str(target), self.values[args[0]])

    def number(self, value: Any, where: str) -> Any:
        """A number that the graph computes from sizes: as it is, or a dimension."""
        if isinstance(value, bool | int | float):
            return value
        if type(value).__name__ == "SymInt":
            return self._size(value, where)
        expr = value.node.expr
        if expr.is_number:
            return float(expr)
        if expr.is_Boolean and expr in (True, False):
            return bool(expr)
        if type(value).__name__ == "SymFloat":
            return self.sizes.quotient(expr, where)
        raise UnsupportedError(f"{where} is the number {self.sizes.text(expr)}, which is known at run time only")

    def _node(self, node: Any, value: Any) -> TorchNode:
        arguments: dict[str, Any] = {}
        metas: dict[str, Any] = {}
        for index, declared in enumerate(node.target._schema.arguments):
            if index < len(node.args) and not declared.kwarg_only:
                given = node.args[index]
            else:
                given = node.kwargs.get(declared.name, declared.default_value)
            arguments[declared.name] = self._argument(given, node.name)
            metas[declared.name] = _meta(given)
        if str(node.target) in ("aten.as_strided.default", "aten.as_strided_copy.default"):
            self._take_memory(node, arguments, metas)
        target, unread, checked = str(node.target), _unread(node, value), _is_checked(node)
        return TorchNode(node.name, target, arguments, metas, value, self.sizes, self.draws, unread, checked)

    def _take_memory(self, node: Any, arguments: dict[str, Any], metas: dict[str, Any]) -> None:
        """Have a view by strides of another view be one of the tensor whose memory that is, if it lies in one piece."""
        view = metas["self"]
        if view.is_contiguous() and not view.storage_offset():
            return
        for other in node.graph.nodes:
            base = other.meta.get("val")
            if other is node or not hasattr(base, "untyped_storage") or not isinstance(self.values.get(other), Expr):
                continue
            shared = base.untyped_storage()._cdata == view.untyped_storage()._cdata and base.dtype == view.dtype
            if shared and base.is_contiguous() and not base.storage_offset():
                if arguments["storage_offset"] is None:
                    arguments["storage_offset"] = self._size(view.storage_offset(), node.name)
                arguments["self"], metas["self"] = self.values[other], base
                return

    def _argument(self, given: Any, where: str) -> Any:
        """An argument with the nodes in it replaced by their values."""
        import torch

        if isinstance(given, torch.fx.Node):
            return self.values[given]
        if isinstance(given, Sequence) and not isinstance(given, str):
            return [self._argument(item, where) for item in given]
        return self._size(given, where) if isinstance(given, torch.SymInt) else given

    def _size(self, value: Any, where: str) -> Any:
        """A size as a dimension; one of values as the scalar that a run computes where it can, else `Any`."""
        extent = self.sizes.dim(value, where)
        if not isinstance(extent, AnyDim):
            return extent
        try:
            return self.sizes.of_run(value.node.expr, where)
        except UnsupportedError:
            return extent

    def _finish_all(self, result: Any, node: TorchNode) -> Any:
        if result is None:
            return None
        done: dict[Expr, Expr] = {}
        if isinstance(result, Expr | Complex):
            return self._finished(result, node, None, done)
        return [self._finished(value, node, index, done) for index, value in enumerate(result)]

    def _finished(self, value: Any, node: TorchNode, index: int | None, done: dict[Expr, Expr]) -> Any:
        if isinstance(value, Complex):
            return value.map(lambda part: self._checked(self._finisher.finish(part, node.name, done), node, index))
        return self._checked(self._finisher.finish(value, node.name, done), node, index)

    def _checked(self, value: Expr, node: TorchNode, index: int | None) -> Expr:
        """`value`, which must have the type that PyTorch found."""
        if not isinstance(node.value, tuple | list):
            index = None
        elif index is None or index >= len(node.value) or node.value[index] is None:
            return value
        if not hasattr(node._value(index), "dtype"):
            return value
        wanted, found = node.shape_at(index), tensor_type_of(value)
        fits = len(wanted) == found.ndim and all(
            a == b for a, b in zip(wanted, found.shape) if isinstance(a, int) and isinstance(b, int)
        )
        if node.target.rpartition(".")[0] in _MISDESCRIBED:
            return value
        if not fits or found.dtype != node.dtype_at(index):
            raise InternalError(f"{node.label} became {found} instead of {wanted} of {node.dtype_at(index)}.")
        return value

    def report(self) -> str:
        """Everything that cannot be converted, one line each; empty where there is nothing."""
        lines = [
            f"{name}: no converter for this operator ({count} {'node' if count == 1 else 'nodes'}, first {first})"
            for name, (count, first) in sorted(self.missing.items(), key=lambda entry: (-entry[1][0], entry[0]))
        ]
        return "\n".join(f"  {line}" for line in [*lines, *dict.fromkeys(self.problems)])


def _reads_element(target: Any) -> bool:
    """True for what returns the one element of a tensor, which is a number to PyTorch and a tensor here."""
    return str(target) in ("aten.item.default", "aten._local_scalar_dense.default")


def wants_converter(node: Any) -> bool:
    """True for a call whose result the importer does not know without one: not for numbers computed from sizes."""
    return not _is_number(node.meta.get("val")) or _reads_element(node.target)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) or type(value).__name__ in ("SymInt", "SymFloat", "SymBool")


def reads_complex(node: Any) -> bool:
    """True where a node of a graph, which calls an operator, reads or returns complex numbers."""
    import torch

    values = [node.meta.get("val"), *(operand.meta.get("val") for operand in node.all_input_nodes)]
    leaves = torch.utils._pytree.tree_leaves([values, node.args, node.kwargs])
    return any(
        leaf.dtype.is_complex if isinstance(leaf, torch.Tensor) else isinstance(leaf, complex) for leaf in leaves
    )


def converter_of(node: Any) -> Any:
    """The converter of a node of a graph, which calls an operator; None where there is none."""
    return find_converter(str(node.target), reads_complex(node))


def _unread(node: Any, value: Any) -> frozenset[int]:
    """The numbers of those of several results that nothing reads."""
    if not isinstance(value, tuple | list) or any(user.target is not operator.getitem for user in node.users):
        return frozenset()
    return frozenset(range(len(value))) - {user.args[1] for user in node.users}


def _is_checked(node: Any) -> bool:
    """True where PyTorch raises by the `info` among the results of a node, in order with other effects or not."""
    readers = [reader for user in node.users for reader in user.users]
    return any("_linalg_check_errors" in f"{reader.target} {reader.args[1:2]}" for reader in readers)


def _meta(given: Any) -> Any:
    """The argument as torch's rules of promotion need it: the fake tensor of a node, or the number."""
    return given.meta.get("val") if hasattr(given, "meta") else given


def value_of(tensor: Any, where: str) -> Constant | Complex:
    """A constant on the memory of a tensor, of a complex one those of its parts."""
    if not tensor.is_complex():
        return array_of(tensor, where)
    plain = tensor.detach().resolve_conj()
    return Complex(array_of(plain.real, where), array_of(plain.imag, where))


def array_of(tensor: Any, where: str) -> Constant:
    """A constant on the memory of a tensor."""
    import torch

    from tilewright.runtime.dlpack import import_array

    held = tensor.untyped_storage().nbytes() if tensor.layout == torch.strided else 0
    if held and tensor.numel() * tensor.element_size() > held * _MOST_REPEATED + _ALWAYS_ALLOWED:
        raise UnsupportedError(
            f"{where} repeats {held} bytes to a tensor of {tensor.numel() * tensor.element_size()} bytes"
        )
    plain = tensor.detach().cpu().contiguous()
    if plain.is_sparse or plain.is_quantized or plain.is_complex():
        raise UnsupportedError(f"{where} is a {plain.dtype} tensor of layout {plain.layout}, which is not supported")
    if plain.dtype == torch.bool:
        return Constant(plain.numpy())
    return Constant(np.asarray(import_array(plain)))
