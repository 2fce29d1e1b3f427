"""The two nets of a Caffe2 model: one that fills the weights, whose operators are tables of numbers, and one that runs.

https://github.com/pytorch/pytorch/blob/v1.13.1/caffe2/proto/caffe2.proto
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.messages import Record, Schema
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import Part
from tilewright.frontend.wire import first_fields, looks_like, read_message

SCHEMA = Schema("""
NetDef name=1:string op=2:OperatorDef* type=3:string num_workers=4:int32 device_option=5:Other arg=6:Argument*
  external_input=7:string* external_output=8:string*
Other
OperatorDef input=1:string* output=2:string* name=3:string type=4:string arg=5:Argument* device_option=6:Other
  engine=7:string
Argument name=1:string f=2:float i=3:int64 s=4:bytes floats=5:float* ints=6:int64* strings=7:bytes*
""")

_WHAT = "a Caffe2 net"
#: Fills of numbers that stand in the net, by the field that holds them and their element type.
_FILLS = {
    "GivenTensorFill": ("floats", "float32"), "GivenTensorIntFill": ("ints", "int32"),
    "GivenTensorInt64Fill": ("ints", "int64"), "GivenTensorBoolFill": ("ints", "bool"),
}  # fmt: skip
_MOST_FILLED = 1 << 28


def is_net(source: Source) -> bool:
    """True for what begins as a NetDef does: behind a name at most, an operator that has a type.

    In Caffe's own networks of old the same numbers mean other things: there the field 5 is a number.
    """
    begin = source.contents[: 1 << 16]
    fields = first_fields(begin)
    if fields and fields[0][0] == 1:
        fields = fields[1:]
    if not fields or fields[0][0] != 2:
        return False
    inner = looks_like(begin[fields[0][1] : fields[0][2]], SCHEMA, "OperatorDef")
    return inner is not None and "type" in inner


def arguments(op: Record) -> dict[str, Any]:
    """The arguments of an operator by name."""
    return {one.name: _value(one) for one in op.arg}


def _value(one: Record) -> Any:
    for name in ("floats", "ints", "strings"):
        if one.has(name):
            value = getattr(one, name)
            return [bytes(item).decode("utf-8", "replace") for item in value] if name == "strings" else value
    if one.has("s"):
        return bytes(one.s).decode("utf-8", "replace")
    return one.f if one.has("f") else one.i


def init_beside(path: Path) -> Path | None:
    """The net that fills the weights of the one at `path`: `init` in place of `predict` in its name."""
    name = path.name.replace("predict", "init")
    found = path.with_name(name)
    return found if name != path.name and found.is_file() else None


def load(predict: Part, init: Part | None) -> tuple[str, Record, dict[str, np.ndarray]]:
    """The name of the model, the net that runs, and the weights by name."""
    source = Source.of(predict)
    net = read_message(source.contents, SCHEMA, "NetDef", source.label, _WHAT)
    if init is None and source.path is not None:
        init = init_beside(source.path)
    if init is None:
        raise ModelError(
            f"{source.label} has no weights: put init_net.pb beside predict_net.pb, or pass a tuple (predict, init)"
        )
    found = Source.of(init)
    filled = read_message(found.contents, SCHEMA, "NetDef", found.label, _WHAT)
    return source.label, net, {op.output[0]: _filled(op, found.label) for op in filled.op if len(op.output) == 1}


def _filled(op: Record, label: str) -> np.ndarray:
    """The weights that an operator fills."""
    given = arguments(op)
    where = f"{label}: {op.type} {op.output[0]!r}"
    shape = [int(extent) for extent in given.get("shape", [])]
    count = int(np.prod(shape, dtype=object))
    if any(extent < 0 for extent in shape) or count > _MOST_FILLED:
        raise ModelError(f"{where} has the shape {shape}")
    if op.type == "ConstantFill":
        return np.full(shape, given.get("value", 0.0), np.float32)
    if op.type not in _FILLS:
        raise UnsupportedError(f"{where}: weights filled so are not supported; known are {', '.join(_FILLS)}")
    _, dtype = _FILLS[op.type]
    data = np.asarray(given.get("values", [])).astype(dtype)
    if data.size != count:
        raise ModelError(f"{where} has {data.size} numbers for the shape {shape}")
    return data.reshape(shape)
