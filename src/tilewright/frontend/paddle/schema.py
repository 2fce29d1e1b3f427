"""The messages of Paddle's programs before version 3, and of the tensors in files of parameters.

https://github.com/PaddlePaddle/Paddle/blob/develop/paddle/fluid/framework/framework.proto
"""

from tilewright.frontend.messages import Schema

SCHEMA = Schema(
    """
ProgramDesc blocks=1:BlockDesc* version=4:Version op_version_map=5:Other
Version version=1:int64
Other
BlockDesc idx=1:int32 parent_idx=2:int32 vars=3:VarDesc* ops=4:OpDesc* forward_block_idx=5:int32
OpDesc inputs=1:OpVar* outputs=2:OpVar* type=3:string attrs=4:Attr* is_target=5:bool
OpVar parameter=1:string arguments=2:string*
Attr name=1:string type=2:enum/AttrType i=3:int32 f=4:float s=5:string ints=6:int32* floats=7:float* strings=8:string*
  b=10:bool bools=11:bool* block_idx=12:int32 l=13:int64 blocks_idx=14:int32* longs=15:int64* float64s=16:double*
  var_name=17:string vars_name=18:string* float64=19:double scalar=20:Scalar
  scalars=21:Scalar*
Scalar type=1:int32 b=2:bool i=3:int64 r=4:double
VarDesc name=1:string type=2:VarType persistable=3:bool need_check_feed=4:bool
VarType type=1:enum/Kind lod_tensor=3:LoDTensorDesc
LoDTensorDesc tensor=1:TensorDesc lod_level=2:int32
TensorDesc data_type=1:enum/Kind dims=2:int64*
""",
    {
        "AttrType": "INT=0 FLOAT=1 STRING=2 INTS=3 FLOATS=4 STRINGS=5 BOOLEAN=6 BOOLEANS=7 BLOCK=8 LONG=9 BLOCKS=10 "
        "LONGS=11 FLOAT64S=12 VAR=13 VARS=14 FLOAT64=15 SCALAR=16 SCALARS=17",
        "Kind": "bool=0 int16=1 int32=2 int64=3 float16=4 float32=5 float64=6 LOD_TENSOR=7 SELECTED_ROWS=8 "
        "FEED_MINIBATCH=9 FETCH_LIST=10 STEP_SCOPES=11 LOD_RANK_TABLE=12 LOD_TENSOR_ARRAY=13 PLACE_LIST=14 "
        "READER=15 RAW=17 TUPLE=18 uint8=20 int8=21 bfloat16=22",
    },
)

#: Element types that tensors may have, in NumPy's terms.
DTYPES = ("bool", "int16", "int32", "int64", "float16", "float32", "float64", "uint8", "int8", "bfloat16")

#: The kinds of the attribute of each type, by the field that holds it.
ATTRIBUTES = {
    "INT": "i", "FLOAT": "f", "STRING": "s", "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings", "BOOLEAN": "b",
    "BOOLEANS": "bools", "LONG": "l", "LONGS": "longs", "FLOAT64S": "float64s",
    "FLOAT64": "float64", "BLOCK": "block_idx",
}  # fmt: skip
