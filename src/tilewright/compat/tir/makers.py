"""`tvm.ir`: nodes by name, types of loop variables, positions in texts, attributes of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import tir
from tilewright.compat.runtime import functions
from tilewright.compat.runtime.stands_for import stands_for
from tilewright.compat.tir import nodes as tir_nodes
from tilewright.compat.tir.intrinsic_rules import declare_intrinsic
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir import registry
from tilewright.relay.transform.partition.external import take_operator


def make_node(type_key: str, **fields: Any) -> Any:
    """A node of the loop IR by the name of its class, such as "tir.Add" or "IntImm"; "DictAttrs" is a dictionary.

    Attributes of other classes ("attrs.…") are, too, and have the name of the class among them.

    Raises `InputError` for a class that is not there or fields that it does not take.
    """
    name = type_key.rpartition(".")[2]
    if name in ("DictAttrs", "Map"):
        return dict(fields)
    if type_key.startswith("attrs."):
        return {**fields, "attrs_type_key": type_key}
    found = getattr(tir_nodes, name, None) or getattr(tir, name, None)
    if not isinstance(found, type):
        raise InputError(f"tvm.ir.make_node: there is no node class {type_key!r}; it makes those of tvm.tir")
    try:
        return found(**{key: value for key, value in fields.items() if key != "span"})
    except TypeError as error:
        raise InputError(f"tvm.ir.make_node({type_key!r}): {error}") from None


class PrimType(str):
    """The type of a scalar: its element type."""

    @property
    def dtype(self) -> str:
        """The element type."""
        return str(self)


class PointerType(str):
    """The type of an address, which is a "handle"; `element_type` and `storage_scope` tell of what."""

    element_type: Any
    storage_scope: str

    def __new__(cls, element_type: Any, storage_scope: str = "") -> PointerType:
        """The type of the address of an element."""
        made = super().__new__(cls, "handle")
        made.element_type, made.storage_scope = element_type, storage_scope
        return made


@dataclass(frozen=True)
class SourceName:
    """The name of a text."""

    name: str


@dataclass(frozen=True)
class Span:
    """A part of a text: from a line and column to another."""

    source_name: SourceName
    line: int
    end_line: int
    column: int
    end_column: int


#: The class of operators, which are those of this package.
Op = stands_for(registry.Op, registry.get, get=staticmethod(registry.get))


class EnvFunc:
    """Functions registered by name."""

    @staticmethod
    def get(name: str) -> Callable[..., Any]:
        """The function registered as `name`."""
        return functions.get_global_func(name)


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """`register_op_attr("add", "target.mylib", takes)`: the external code generator "mylib" takes such calls.

    `takes(call)` says which; without it a decorator. What partitions take over is not compiled, unless the code
    generator is registered with `tilewright.relay.transform.partition.external`.
    `register_op_attr("tir.mine", "TCallEffectKind", CallEffectKind.Pure)` declares an intrinsic, which rules of
    `register_intrin_lowering` lower. Raises `UnsupportedError` for other attributes: an operator is complete when it is
    registered.
    """
    if op_name.startswith("tir.") and attr_key == "TCallEffectKind" and value is not None:
        declare_intrinsic(op_name, value)
        return value
    registry.get(op_name)
    kind, _, compiler = attr_key.partition(".")
    if kind != "target" or not compiler:
        raise UnsupportedError(
            f'register_op_attr({op_name!r}, {attr_key!r}): the attribute that can be set is "target.NAME", which says '
            "what an external code generator takes; others are arguments of tilewright.relay.ir.registry.register"
        )

    def register(predicate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        take_operator(compiler, op_name, lambda call: bool(predicate(call)))
        return predicate

    return register if value is None else register(value)
