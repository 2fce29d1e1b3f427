"""The messages of TensorFlow's files that are read, as tables; numbers from its .proto files."""

from __future__ import annotations

from tilewright.frontend.messages import Schema

SCHEMA = Schema("""
SavedModel saved_model_schema_version=1:int64 meta_graphs=2:MetaGraphDef*
MetaGraphDef meta_info_def=1:MetaInfoDef graph_def=2:GraphDef saver_def=3:SaverDef
  signature_def=5:map/string/SignatureDef
MetaInfoDef tags=4:string*
SaverDef filename_tensor_name=1:string save_tensor_name=2:string restore_op_name=3:string
SignatureDef inputs=1:map/string/TensorInfo outputs=2:map/string/TensorInfo method_name=3:string
TensorInfo name=1:string dtype=2:int32 tensor_shape=3:TensorShapeProto
GraphDef node=1:NodeDef* library=2:FunctionDefLibrary version=3:int32 versions=4:bytes debug_info=5:bytes
FunctionDefLibrary function=1:FunctionDef*
FunctionDef signature=1:OpDef node_def=3:NodeDef* ret=4:map/string/string control_ret=6:map/string/string
OpDef name=1:string input_arg=2:ArgDef* output_arg=3:ArgDef*
ArgDef name=1:string type=3:int32
NodeDef name=1:string op=2:string input=3:string* device=4:string attr=5:map/string/AttrValue
  experimental_debug_info=6:bytes experimental_type=7:bytes
AttrValue list=1:ListValue s=2:bytes i=3:int64 f=4:float b=5:bool type=6:int32 shape=7:TensorShapeProto
  tensor=8:TensorProto placeholder=9:string func=10:NameAttrList
ListValue s=2:bytes* i=3:int64* f=4:float* b=5:bool* type=6:int32* shape=7:TensorShapeProto* func=9:NameAttrList*
NameAttrList name=1:string
TensorShapeProto dim=2:Dim* unknown_rank=3:bool
Dim size=1:int64 name=2:string
TensorProto dtype=1:int32 tensor_shape=2:TensorShapeProto tensor_content=4:bytes half_val=13:int32* float_val=5:float*
  double_val=6:double* int_val=7:int32* string_val=8:bytes* scomplex_val=9:float* int64_val=10:int64*
  bool_val=11:bool* dcomplex_val=12:double* uint32_val=16:uint32* uint64_val=17:uint64*
BundleHeaderProto num_shards=1:int32 endianness=2:int32
BundleEntryProto dtype=1:int32 shape=2:TensorShapeProto shard_id=3:int32 offset=4:int64 size=5:int64 slices=7:Slice*
Slice extent=1:bytes*
""")

#: Element types by number: what Relay calls them, and where a tensor has them that does not have their bytes.
_TYPES = {
    1: ("float32", "float_val"), 2: ("float64", "double_val"), 3: ("int32", "int_val"), 4: ("uint8", "int_val"),
    5: ("int16", "int_val"), 6: ("int8", "int_val"), 9: ("int64", "int64_val"), 10: ("bool", "bool_val"),
    11: ("int8", "int_val"), 12: ("uint8", "int_val"), 13: ("int32", "int_val"), 14: ("bfloat16", "half_val"),
    15: ("int16", "int_val"), 16: ("uint16", "int_val"), 17: ("uint16", "int_val"), 19: ("float16", "half_val"),
    22: ("uint32", "uint32_val"), 23: ("uint64", "uint64_val"),
}  # fmt: skip
_OTHER = {7: "string", 8: "complex64", 18: "complex128", 20: "resource", 21: "variant"}
STRING, RESOURCE, VARIANT = 7, 20, 21


def type_name(code: int) -> str | None:
    """Relay's name of an element type; None for one that it does not have."""
    return _TYPES.get(code % 100, (None,))[0]


def value_field(code: int) -> str:
    """The field of a tensor that has its numbers."""
    return _TYPES[code % 100][1]


def described(code: int) -> str:
    """An element type as messages name it."""
    return type_name(code) or _OTHER.get(code % 100, f"type {code}")
