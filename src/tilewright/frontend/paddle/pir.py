"""Programs of Paddle 3: PIR as JSON. Nothing in it is executed; what is not as expected is a `ModelError`."""

from __future__ import annotations

import json
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.paddle.program import Operation, Program, Value

_DTYPES = {
    "t_bool": "bool", "t_i8": "int8", "t_ui8": "uint8", "t_i16": "int16", "t_i32": "int32", "t_i64": "int64",
    "t_f16": "float16", "t_f32": "float32", "t_f64": "float64", "t_bf16": "bfloat16",
}  # fmt: skip


def is_pir(contents: memoryview) -> bool:
    """True for what begins as JSON of PIR does."""
    begin = bytes(contents[:400])
    return begin.lstrip()[:1] == b"{" and b'"base_code"' in begin and b'"pir"' in begin


def read_pir(contents: memoryview, label: str) -> Program:
    """The main block of a program. Raises `ModelError`."""
    try:
        (block,) = json.loads(bytes(contents))["program"]["regions"][0]["blocks"]
        program = Program(label)
        for entry in block["ops"]:
            _operation(program, entry)
        return program
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise ModelError(f"{label} is a truncated or damaged Paddle program: {type(error).__name__}: {error}") from None


def _operation(program: Program, entry: dict[str, Any]) -> None:
    kind = str(entry["#"])
    if kind == "p":  # a parameter: its name is the last of four attributes
        value = _value(entry["O"], str(entry["A"][3]))
        if (entry.get("OA") or [1])[0]:  # the first says whether it is stored
            program.parameters.append((_key(entry["O"]), value))
        else:
            program.unstored.add(_key(entry["O"]))
        return
    dialect, _, name = kind.partition(".")
    attrs = {str(one["N"]): _attribute(one["AT"]) for one in entry["A"]}
    outputs = entry["O"] if isinstance(entry["O"], list) else [entry["O"]]
    results = [_key(one) for one in outputs]
    keys = [None if int(one["%"]) <= 0 else _key(one) for one in entry["I"]]
    inputs = [None if key in program.unstored else key for key in keys]
    if name == "data" or name == "feed":
        program.inputs.append((results[0], _value(outputs[0], str(attrs["name"]))))
    elif name == "fetch":
        program.results.append(str(inputs[0]))
    else:
        if dialect == "0":
            name = f"builtin.{name}"
        if entry.get("regions"):
            attrs["regions"] = True
        counts = {key: len(one["TT"]["D"]) for key, one in zip(results, outputs) if _kind(one.get("TT")) == "t_vec"}
        label = f"{name}_{results[0]}" if results else name
        program.operations.append(Operation(name, label, inputs, results, attrs, counts))


def _key(entry: dict[str, Any]) -> str:
    return f"%{int(entry['%'])}"


def _kind(type_: Any) -> str:
    return str(type_["#"]).partition(".")[2] if isinstance(type_, dict) else ""


def _value(entry: dict[str, Any], name: str) -> Value:
    element, dims = entry["TT"]["D"][:2]
    dtype = _DTYPES.get(_kind(element))
    if dtype is None:
        raise ValueError(f"the element type {element} of {name!r}")
    return Value(name, dtype, tuple(int(extent) for extent in dims))


def _attribute(entry: Any) -> Any:
    """An attribute as plain data."""
    kind = _kind(entry)
    data = entry.get("D")
    return [_attribute(item) for item in data] if kind == "a_array" else data
