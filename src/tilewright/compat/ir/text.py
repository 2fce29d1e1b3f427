"""`tvm.parser`, `relay.fromtext`, `tvm.ir.save_json` and their kin."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.ir.module import IRModule
from tilewright.compat.ir.tensor_json import Saved, is_tensor_json, read_tensor_json, tensor_json
from tilewright.errors import ParseError, UnsupportedError, UserError
from tilewright.relay.ir import json as relay_json
from tilewright.relay.ir import parser
from tilewright.relay.ir.infer_type import infer_type


def parse(
    source: str, source_name: str = "from_string", init_module: Any = None, init_meta_table: Any = None
) -> IRModule:
    """The module that `source` spells, with what `init_module` defines; errors name the text `source_name`.

    Its types are inferred; a program that has faults in them is given as it stands, and tells of them where types are
    requested. `init_meta_table["relay.Constant"]` are the constants that the text names by number.
    Raises `ParseError`.
    """
    constants = dict(init_meta_table or {}).pop("relay.Constant", ())
    try:
        found = parser.parse(source, init_module, constants)
    except ParseError as error:
        raise ParseError(str(error) if source_name == "from_string" else f"{source_name}: {error}") from None
    try:
        return IRModule.of(infer_type(found))
    except UserError:
        return IRModule.of(found)


def parse_expr(source: str) -> relay.Expr:
    """The expression that `source` spells. Raises `ParseError`."""
    return parser.parse_expr(source)


def fromtext(data: str, source_name: str = "from_string") -> Any:
    """The module, or the expression, that `data` spells. Raises `ParseError`."""
    found = parser.fromtext(data)
    return IRModule.of(found) if isinstance(found, relay.IRModule) else found


def astext(expr: Any, show_meta_data: bool = True, annotate: Any = None) -> str:
    """A module or expression as text that `fromtext` reads; without `show_meta_data` no contents of constants."""
    if annotate is not None:
        raise UnsupportedError("relay.astext(annotate=…): remarks are not written; look at the nodes themselves")
    return relay.astext(expr, show_meta_data)


def save_json(node: Any) -> str:
    """A module, expression or type as JSON in the classic format; schedules and tensors in one of our own."""
    if isinstance(node, Saved):
        return tensor_json(node)
    if isinstance(node, IRModule):
        node = relay.IRModule(node.functions, node.type_definitions)
    return relay_json.save_json(node)


def load_json(json_str: str) -> Any:
    """The object written by `save_json`."""
    found = read_tensor_json(json_str) if is_tensor_json(json_str) else relay.load_json(json_str)
    return IRModule.of(found) if isinstance(found, relay.IRModule) else found
