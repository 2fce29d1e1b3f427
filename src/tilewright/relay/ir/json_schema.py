"""Node classes of the JSON format and the fields of each, in the order in which they are numbered.

A field is an object (the number of a node), or plain: an int, float, bool or string. Spellings of classes that the
samples of the format do not show follow the classic class names.
"""

from __future__ import annotations

from typing import Literal

from tilewright.relay.ir.node import Node

#: "o": the number of a node; "n": the number of an array; the rest are plain values.
Kind = Literal["o", "i", "f", "b", "s", "n"]
Fields = dict[str, Kind]

_EXPR: Fields = {"virtual_device_": "o", "span": "o", "_checked_type_": "o"}


def _fields(spelling: str) -> Fields:
    """`"a b:i"` is an object a and an int b."""
    parts = [part.partition(":") for part in spelling.split()]
    return {name: kind or "o" for name, _, kind in parts}  # type: ignore[misc]


def _expr(spelling: str) -> Fields:
    return {**_fields(spelling), **_EXPR}


#: Fields by type key.
SCHEMA: dict[str, Fields] = {
    "IRModule": _fields(
        "functions type_definitions global_var_map_ global_type_var_map_ source_map attrs global_infos"
    ),
    "SourceMap": _fields("source_map"),
    "GlobalVar": _fields("name_hint virtual_device_ span _checked_type_ struct_info_"),
    "relay.Id": _fields("name_hint"),
    "relay.Var": _expr("vid type_annotation"),
    "relay.Constant": _expr("data:n"),
    "relay.Tuple": _expr("fields"),
    "relay.TupleGetItem": _expr("tuple_value index:i"),
    "relay.Call": _expr("op args attrs type_args"),
    "relay.Let": _expr("var value body"),
    "relay.If": _expr("cond true_branch false_branch"),
    "relay.Function": _expr("params body ret_type type_params attrs"),
    "relay.RefCreate": _expr("value"),
    "relay.RefRead": _expr("ref"),
    "relay.RefWrite": _expr("ref value"),
    "relay.Constructor": _fields("name_hint:s inputs belong_to tag:i span _checked_type_"),
    "relay.Match": _expr("data clauses complete:b"),
    "relay.Clause": _fields("lhs rhs"),
    "relay.PatternWildcard": _fields("span"),
    "relay.PatternVar": _fields("var span"),
    "relay.PatternConstructor": _fields("constructor patterns span"),
    "relay.PatternTuple": _fields("patterns span"),
    "relay.TensorType": _fields("shape dtype:s span"),
    "TupleType": _fields("fields span"),
    "FuncType": _fields("arg_types ret_type type_params type_constraints span"),
    "TypeVar": _fields("name_hint:s kind:i span"),
    "GlobalTypeVar": _fields("name_hint:s kind:i span"),
    "TypeCall": _fields("func args span"),
    "relay.RefType": _fields("value span"),
    "relay.TypeData": _fields("header type_vars constructors span"),
    "IncompleteType": _fields("kind:i span"),
    "tir.Any": _fields("dtype:s span"),
    "IntImm": _fields("dtype:s value:i span"),
    "FloatImm": _fields("dtype:s value:f span"),
    "tir.SizeVar": _fields("dtype:s name:s type_annotation span"),
    "tir.Var": _fields("dtype:s name:s type_annotation span"),
    "Span": _fields("source_name line:i column:i end_line:i end_column:i"),
    "DictAttrs": _fields("__dict__"),
    "VirtualDevice": _fields("device_type_int:i virtual_device_id:i target memory_scope"),
    **{
        f"tir.{name}": _fields("dtype:s a b span")
        for name in ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min", "Max")
    },
}

_CONV = "strides padding dilation groups:i channels kernel_size data_layout:s kernel_layout:s out_layout:s out_dtype:s"
_POOL = "pool_size strides dilation padding layout:s out_layout:s"

#: What the classic attributes have and operators here may lack: what it is then.
ATTR_DEFAULTS = {"center": True, "scale": True, "num_newaxis": 1}

#: The fields of classes of attributes, which operators name (`Op.attrs_class`), by type key.
ATTRS: dict[str, Fields] = {
    f"relay.attrs.{name}": _fields(fields)
    for name, fields in {
        "DenseAttrs": "units out_dtype:s",
        "BatchMatmulAttrs": "out_dtype:s transpose_a:b transpose_b:b",
        "Conv1DAttrs": _CONV,
        "Conv2DAttrs": _CONV,
        "Conv3DAttrs": _CONV,
        "BiasAddAttrs": "axis:i",
        "SoftmaxAttrs": "axis:i",
        "LeakyReluAttrs": "alpha:f",
        "PReluAttrs": "axis:i",
        "DropoutAttrs": "rate:f",
        "BatchNormAttrs": "axis:i epsilon:f center:b scale:b",
        "LayerNormAttrs": "axis:i epsilon:f center:b scale:b",
        "MaxPool2DAttrs": f"{_POOL} ceil_mode:b",
        "AvgPool2DAttrs": f"{_POOL} ceil_mode:b count_include_pad:b",
        "GlobalPool2DAttrs": "layout:s out_layout:s",
        "ConcatenateAttrs": "axis:i",
        "StackAttrs": "axis",
        "SplitAttrs": "indices_or_sections axis:i",
        "TransposeAttrs": "axes",
        "ReshapeAttrs": "newshape allowzero:b",
        "SqueezeAttrs": "axis",
        "ExpandDimsAttrs": "axis:i num_newaxis:i",
        "CastAttrs": "dtype:s",
        "ClipAttrs": "a_min:f a_max:f",
        "LayoutTransformAttrs": "src_layout:s dst_layout:s",
        "ReduceAttrs": "axis keepdims:b exclude:b",
    }.items()
}


def declared_key(cls: type[Node]) -> str:
    """The classic type key of a class of nodes."""
    return f"relay.{cls.__name__}" if f"relay.{cls.__name__}" in SCHEMA else cls.__name__


def classic_name(field: str) -> str:
    """The name of a node's field in the format."""
    return "name_hint" if field == "name" else field
