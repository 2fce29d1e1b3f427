"""Relay as node JSON, the classic format: every object a numbered node, shared objects once, arrays in base64.

    save_json(mod)      {"root": 1, "nodes": [{"type_key": "IRModule", "attrs": {…}}, …], "b64ndarrays": […], …}
    load_json(text)     the module (or expression) again

Nodes are numbered as they are met, before their fields, in the order of the tables in `json_schema`. What classic
JSON has and Relay here has not (virtual devices, source maps) is written empty and not read. Attributes of an operator
that the classic format does not know, or that do not have the classic fields, are written as `DictAttrs`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.relay.ir import json_reader
from tilewright.relay.ir.expr import Attrs, Call, Expr, Function, Var
from tilewright.relay.ir.json_schema import ATTR_DEFAULTS, ATTRS, SCHEMA, classic_name, declared_key
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.node import Node
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import FuncType, GlobalTypeVar, Kind, Type
from tilewright.support.array_format import array_bytes
from tilewright.tir import expr as tir

#: What the files say wrote them, which the classic loader takes for its own newest.
CLASSIC_VERSION = "0.16.dev0"

load_json = json_reader.load_json
load_metadata = json_reader.load_metadata


def save_json(root: IRModule | Expr | Type) -> str:
    """`root` as node JSON. Raises InputError for a constant of strings."""
    return _Writer().text(root)


def save_metadata(sections: Mapping[str, list[Any]]) -> str:
    """The metadata section of a text: lists of nodes by class."""
    return _Writer().text({key: _Array(items) for key, items in sections.items()})


class _Array(tuple[Any, ...]):
    """A list as a node of its own: two equal ones are two nodes."""

    __slots__ = ()


class _Record:
    """A node that stands for no object here: a type key and its fields or contents."""

    def __init__(self, type_key: str, fields: Mapping[str, Any] | None = None, text: str | None = None) -> None:
        self.type_key = type_key
        self.fields = fields or {}
        self.text = text


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self.arrays: list[str] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._device = _Record("VirtualDevice", {"device_type_int": -1, "virtual_device_id": -1, "memory_scope": ""})

    def text(self, root: Any) -> str:
        """The whole file."""
        number = self._number(root)
        content = {
            "root": number,
            "nodes": self.nodes,
            "b64ndarrays": self.arrays,
            "attrs": {"tvm_version": CLASSIC_VERSION},
        }
        return json.dumps(content, indent=2)

    def _number(self, root: Any) -> int:
        """Number `root` and all that it reaches, each before its fields; iterative, for networks are deep."""
        stack: list[tuple[Any, Callable[[int], None]]] = []
        result: list[int] = []
        stack.append((root, result.append))
        while stack:
            value, put = stack.pop()
            if value is None:
                put(0)
                continue
            value = _as_node(value)
            found = self._numbers.get(id(value))
            if found is None:
                found = self._numbers[id(value)] = len(self.nodes)
                self._kept.append(value)
                entry: dict[str, Any] = {}
                self.nodes.append(entry)
                stack.extend(reversed(self._fill(value, entry)))
            put(found)
        return result[0]

    def _fill(self, value: Any, entry: dict[str, Any]) -> list[tuple[Any, Callable[[int], None]]]:
        """Write what is plain into `entry`; return the objects in it, and where their numbers go."""
        if isinstance(value, str):
            entry["type_key"] = "runtime.String"
            if value:
                entry["repr_str"] = value
            return []
        if isinstance(value, Op):
            entry.update(type_key="Op", repr_str=value.name)
            return []
        if isinstance(value, _Array):
            return self._items(entry, "Array", list(value))
        if isinstance(value, Mapping):
            if all(isinstance(key, str) for key in value):
                rest = self._items(entry, "Map", list(value.values()))
                if value:
                    entry["keys"] = list(value)
                return rest
            return self._items(entry, "Map", [part for item in value.items() for part in item])
        record = _record(value, self._device)
        entry["type_key"] = record.type_key
        if record.text is not None:
            entry["repr_str"] = record.text
        return self._fields(entry, record)

    def _items(self, entry: dict[str, Any], type_key: str, items: list[Any]) -> list[tuple[Any, Callable[[int], None]]]:
        entry["type_key"] = type_key
        if not items:
            return []
        data = entry["data"] = [0] * len(items)
        return [(item, lambda n, i=i: data.__setitem__(i, n)) for i, item in enumerate(items)]  # type: ignore[misc]

    def _fields(self, entry: dict[str, Any], record: _Record) -> list[tuple[Any, Callable[[int], None]]]:
        schema = SCHEMA.get(record.type_key) or ATTRS.get(record.type_key, {})
        if not schema:
            return []
        texts: dict[str, str] = dict.fromkeys(sorted(schema), "0")
        entry["attrs"] = texts
        objects: list[tuple[Any, Callable[[int], None]]] = []
        for name, kind in schema.items():
            value = record.fields.get(name, ATTR_DEFAULTS.get(name))
            if kind == "o":
                objects.append((value, lambda n, name=name: texts.__setitem__(name, str(n))))  # type: ignore[misc]
            elif kind == "n":
                texts[name] = str(len(self.arrays))
                assert isinstance(value, np.ndarray)
                self.arrays.append(base64.b64encode(array_bytes(value)).decode())
            else:
                texts[name] = _plain(value, kind)
        return objects


def _plain(value: Any, kind: str) -> str:
    if kind == "s":
        return "" if value is None else str(value)
    if kind == "f":
        return repr(float(value))
    return str(int(value or 0))


def _as_node(value: Any) -> Any:
    """Tuples as arrays, numbers as immediate values."""
    if isinstance(value, tuple) and not isinstance(value, _Array):
        return _Array(value)
    if isinstance(value, bool):
        return _Record("IntImm", {"dtype": "bool", "value": value})
    if isinstance(value, int):
        return _Record("IntImm", {"dtype": "int32" if -(2**31) <= value < 2**31 else "int64", "value": value})
    return _Record("FloatImm", {"dtype": "float64", "value": value}) if isinstance(value, float) else value


def _record(value: Any, device: _Record) -> _Record:
    """The fields of an object, by their classic names."""
    if isinstance(value, _Record):
        return value
    make = _RECORDS.get(type(value)) or (_declared if isinstance(value, Node) else None)
    if make is None:
        raise InputError(f"a {type(value).__name__} cannot be written to JSON")
    type_key, fields = make(value)
    if isinstance(value, Expr) and "virtual_device_" in SCHEMA[type_key] and type_key != "GlobalVar":
        fields = {**fields, "virtual_device_": device}
    return _Record(type_key, fields)


def _module(mod: IRModule) -> tuple[str, dict[str, Any]]:
    return "IRModule", {
        "functions": dict(mod.functions),
        "type_definitions": dict(mod.type_definitions),
        "global_var_map_": {gvar.name: gvar for gvar in mod.functions},
        "global_type_var_map_": {header.name: header for header in mod.type_definitions},
        "source_map": _Record("SourceMap", {"source_map": {}}),
        "global_infos": {},
    }


def _call(call: Call) -> tuple[str, dict[str, Any]]:
    span = _Record("Span", {"source_name": _Record("SourceName", text=call.span)}) if call.span else None
    return "relay.Call", {
        "op": call.op,
        "args": _Array(call.args),
        "attrs": _call_attrs(call),
        "type_args": _Array(),
        "span": span,
    }


def _call_attrs(call: Call) -> _Record | None:
    """Classic attributes where the operator has them and what is left out are defaults; a dictionary otherwise."""
    if not call.attrs:
        return None
    if isinstance(call.op, Op) and call.op.attrs_class:
        key = f"relay.attrs.{call.op.attrs_class}"
        fields = ATTRS[key]
        kept = {name: value for name, value in call.attrs.items() if name in fields}
        schema = call.op.attributes or {}
        left_out = {name: value for name, value in call.attrs.items() if name not in fields}
        if all(name in schema and schema[name].default == value for name, value in left_out.items()):
            return _Record(key, kept)
    return _dict_attrs(call.attrs)


def _dict_attrs(attrs: Attrs) -> _Record | None:
    if not attrs:
        return None
    return _Record("DictAttrs", {"__dict__": dict(attrs)})


def _function(func: Function) -> tuple[str, dict[str, Any]]:
    return "relay.Function", {
        "params": _Array(func.params),
        "body": func.body,
        "ret_type": func.ret_type,
        "type_params": _Array(func.type_params),
        "attrs": _dict_attrs(func.attrs),
    }


def _binary(node: tir.BinaryExpr) -> tuple[str, dict[str, Any]]:
    return f"tir.{type(node).__name__}", {"dtype": node.dtype, "a": node.a, "b": node.b}


def _declared(value: Node) -> tuple[str, dict[str, Any]]:
    """Any node, by the fields that it declares."""
    return declared_key(type(value)), {classic_name(f): _classic_value(getattr(value, f)) for f in value.FIELDS}


def _classic_value(value: Any) -> Any:
    if isinstance(value, Kind):
        return value.value
    return _Array(value) if isinstance(value, tuple) else value


def _function_type(type_: FuncType) -> tuple[str, dict[str, Any]]:
    key, fields = _declared(type_)
    return key, {**fields, "type_constraints": _Array()}


#: Values that are no nodes, and nodes whose classic fields are others.
_RECORDS: dict[type, Callable[[Any], tuple[str, dict[str, Any]]]] = {
    IRModule: _module,
    Var: lambda e: (
        "relay.Var",
        {"vid": _Record("relay.Id", {"name_hint": e.name}), "type_annotation": e.type_annotation},
    ),
    Call: _call,
    Function: _function,
    FuncType: _function_type,
    GlobalTypeVar: lambda t: ("GlobalTypeVar", {"name_hint": t.name, "kind": t.kind.value}),
    AnyDim: lambda d: ("tir.Any", {"dtype": "int32"}),
    tir.SizeVar: lambda d: ("tir.SizeVar", {"dtype": d.dtype, "name": d.name}),
    tir.Var: lambda d: ("tir.Var", {"dtype": d.dtype, "name": d.name}),
    tir.IntImm: lambda d: ("IntImm", {"dtype": d.dtype, "value": d.value}),
    Attrs: lambda a: ("DictAttrs", {"__dict__": dict(a)}),
    **{getattr(tir, name): _binary for name in ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min", "Max")},
}
