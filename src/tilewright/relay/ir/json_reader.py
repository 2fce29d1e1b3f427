"""Node JSON to Relay; the other direction and the format: `relay/ir/json.py`."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import ModelError, TilewrightError, TypeMismatchError
from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import Attrs, Call, Function, Var
from tilewright.relay.ir.json_schema import ATTR_DEFAULTS, ATTRS, SCHEMA, Fields, classic_name, declared_key
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.node import DECLARED, Node
from tilewright.relay.ir.registry import Op, get
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Kind
from tilewright.support.array_format import read_array
from tilewright.tir import expr as tir

#: Fields that hold what Relay here has not.
_IGNORED = {"virtual_device_", "_checked_type_", "struct_info_", "source_map", "global_infos", "type_constraints"}


def load_json(text: str) -> Any:
    """The module, expression or type that `save_json`, or the classic stack, wrote. Raises ModelError."""
    return _Reader(text).root()


def load_metadata(text: str) -> dict[str, list[Any]]:
    """The lists of nodes by class of a metadata section. Raises ModelError where it is no map of lists."""
    found = load_json(text)
    if not isinstance(found, dict):
        raise ModelError("the metadata section is no map of lists")
    return {key: list(items) for key, items in found.items()}


class _Reader:
    """Makes the objects of a file, each once, fields first."""

    def __init__(self, text: str) -> None:
        try:
            content = json.loads(text)
            self.nodes: list[dict[str, Any]] = content["nodes"]
            self.start = int(content["root"])
            self.arrays = [read_array(base64.b64decode(item))[0] for item in content["b64ndarrays"]]
        except (ValueError, KeyError, TypeError, binascii.Error, TilewrightError) as error:
            raise ModelError(f"this is no node JSON: {error}") from None
        self.made: dict[int, Any] = {0: None}

    def root(self) -> Any:
        """The root of the file."""
        stack = [self.start]
        entered: set[int] = set()
        while stack:
            number = stack[-1]
            if number in self.made:
                stack.pop()
                continue
            missing = [n for n in self._needs(number) if n not in self.made]
            if missing:
                if number in entered and any(n in entered for n in missing):
                    raise ModelError(f"node {number} of the JSON contains itself")
                entered.add(number)
                stack.extend(reversed(missing))
                continue
            self.made[number] = self._make(number)
            stack.pop()
        return self.made[self.start]

    def _node(self, number: int) -> dict[str, Any]:
        if not 0 <= number < len(self.nodes):
            raise ModelError(f"the JSON names node {number}; it has {len(self.nodes)}")
        return self.nodes[number]

    def _schema(self, node: dict[str, Any]) -> Fields:
        key = node["type_key"]
        return SCHEMA.get(key) or ATTRS.get(key) or {}

    def _needs(self, number: int) -> list[int]:
        node = self._node(number)
        schema, attrs = self._schema(node), node.get("attrs", {})
        fields = [int(attrs[n]) for n, kind in schema.items() if kind == "o" and n not in _IGNORED and n in attrs]
        return fields + [int(n) for n in node.get("data", ())]

    def _make(self, number: int) -> Any:
        node = self._node(number)
        key = node["type_key"]
        if key in ("Array", "Map"):
            items = [self.made[int(n)] for n in node.get("data", ())]
            if key == "Array":
                return tuple(items)
            return dict(zip(node.get("keys") or items[::2], items if node.get("keys") else items[1::2], strict=True))
        if key in ("runtime.String", "SourceName"):
            return node.get("repr_str", "")
        if key == "Op":
            return get(node["repr_str"])
        if key.startswith("relay.attrs.") and key not in ATTRS:
            raise ModelError(f"attributes of class {key} are not known to this reader")
        make = _MAKE.get(key)
        if make is None and key not in ATTRS:
            raise ModelError(f"nodes of class {key!r} are not known to this reader")
        try:
            fields = self._fields(node)
            return Attrs(_tidied(fields)) if make is None else make(fields)
        except TypeMismatchError as error:
            raise ModelError(f"node {number} of the JSON, a {key}: {error}") from None
        except (KeyError, ValueError, TypeError) as error:
            raise ModelError(f"node {number} of the JSON, a {key}, is malformed: {error!r}") from None

    def _fields(self, node: dict[str, Any]) -> dict[str, Any]:
        attrs = node.get("attrs", {})
        fields: dict[str, Any] = {}
        for name, kind in self._schema(node).items():
            if name in _IGNORED or name not in attrs:
                continue
            if kind == "o":
                fields[name] = self.made[int(attrs[name])]
            elif kind == "n":
                fields[name] = self.arrays[int(attrs[name])]
            else:
                fields[name] = _PLAIN[kind](attrs[name])
        return fields


_PLAIN: dict[str, Callable[[str], Any]] = {
    "i": int,
    "f": float,
    "b": lambda text: bool(int(text)),
    "s": str,
}


def _tidied(fields: dict[str, Any]) -> dict[str, Any]:
    """Attributes as they are here: immediate values as numbers."""
    return {name: _number(value) for name, value in fields.items()}


def _number(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_number(item) for item in value])
    if isinstance(value, tir.IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    return value.value if isinstance(value, tir.FloatImm) else value


def _call(fields: dict[str, Any]) -> Call:
    op, args = fields["op"], fields["args"]
    attrs = fields.get("attrs") or {}
    if isinstance(op, Op):
        attrs = complete(op.name, op.attributes, _without_neutral(op, attrs))
    return Call(op, args, attrs, fields.get("span") or "")


def _without_neutral(op: Op, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """`attrs` without those of the classic class that the operator lacks, where they say what it does anyway."""
    if not op.attrs_class or op.attributes is None:
        return attrs
    return {
        name: value
        for name, value in attrs.items()
        if name in op.attributes or (value != ATTR_DEFAULTS[name] if name in ATTR_DEFAULTS else bool(value))
    }


def _module(fields: dict[str, Any]) -> IRModule:
    return IRModule(fields["functions"], fields["type_definitions"])


def _dict_attrs(fields: dict[str, Any]) -> Attrs:
    return Attrs(_tidied(fields["__dict__"] or {}))


def _binary(cls: type[tir.BinaryExpr]) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: cls(fields["a"], fields["b"])


def _declared(cls: type[Node]) -> Callable[[dict[str, Any]], Any]:
    """Makes a node of the fields that its class declares."""

    def make(fields: dict[str, Any]) -> Any:
        values = {name: fields[classic_name(name)] for name in cls.FIELDS}
        if "kind" in values:
            values["kind"] = Kind(values["kind"])
        return cls(**{name: value for name, value in values.items() if value is not None})

    return make


_MAKE: dict[str, Callable[[dict[str, Any]], Any]] = {
    **{declared_key(cls): _declared(cls) for cls in DECLARED},
    "IRModule": _module,
    "SourceMap": lambda f: None,
    "VirtualDevice": lambda f: None,
    "relay.Id": lambda f: f["name_hint"],
    "relay.Var": lambda f: Var(f["vid"], f["type_annotation"]),
    "relay.Call": _call,
    "relay.Function": lambda f: Function(
        f["params"], f["body"], f["ret_type"], f["type_params"] or (), f["attrs"] or {}
    ),
    "tir.Any": lambda f: AnyDim(),
    "IntImm": lambda f: tir.IntImm(f["dtype"], f["value"]),
    "FloatImm": lambda f: tir.FloatImm(f["dtype"], f["value"]),
    "tir.SizeVar": lambda f: tir.SizeVar(f["name"], f["dtype"]),
    "tir.Var": lambda f: tir.Var(f["name"], f["dtype"]),
    "Span": lambda f: f["source_name"],
    "DictAttrs": _dict_attrs,
    **{
        f"tir.{name}": _binary(getattr(tir, name))
        for name in ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min", "Max")
    },
}
