"""The messages of Core ML models, as `messages.py` reads them: the description of a model, and ML programs;
neural networks are in `network_schema.py`.

https://apple.github.io/coremltools/mlmodel/index.html
"""

from tilewright.frontend.coreml.network_schema import ENUMS, MESSAGES
from tilewright.frontend.messages import Schema

SCHEMA = Schema(
    """
Model specificationVersion=1:int32 description=2:ModelDescription isUpdatable=10:bool
  neuralNetworkClassifier=403:NeuralNetwork neuralNetworkRegressor=303:NeuralNetwork neuralNetwork=500:NeuralNetwork
  mlProgram=502:Program pipeline=202:Other
Other
ModelDescription input=1:FeatureDescription* output=10:FeatureDescription* state=13:FeatureDescription*
  functions=20:FunctionDescription* defaultFunctionName=21:string predictedFeatureName=11:string metadata=100:Metadata
Metadata shortDescription=1:string versionString=2:string author=3:string license=4:string
  userDefined=100:map/string/string
StringVector vector=1:string*
FunctionDescription name=1:string input=2:FeatureDescription* output=3:FeatureDescription* state=6:FeatureDescription*
FeatureDescription name=1:string shortDescription=2:string type=3:FeatureType
FeatureType multiArrayType=5:ArrayFeatureType imageType=4:ImageFeatureType stateType=8:StateFeatureType
  isOptional=1000:bool
StateFeatureType arrayType=1:ArrayFeatureType
ImageFeatureType width=1:int64 height=2:int64 colorSpace=3:enum/ColorSpace
ArrayFeatureType shape=1:int64* dataType=2:enum/ArrayDataType
Program version=1:int64 functions=2:map/string/Function docString=3:string
Function inputs=1:NamedValueType* opset=2:string block_specializations=3:map/string/Block
NamedValueType name=1:string type=2:ValueType
ValueType tensorType=1:TensorType listType=2:ListType tupleType=3:TupleType stateType=5:StateType
ListType type=1:ValueType length=2:Dimension
TupleType types=1:ValueType*
StateType wrappedType=1:ValueType
TensorType dataType=1:enum/DataType rank=2:int64 dimensions=3:Dimension*
Dimension constant=1:ConstantDimension unknown=2:UnknownDimension
ConstantDimension size=1:uint64
UnknownDimension variadic=1:bool
Value docString=1:string type=2:ValueType immediateValue=3:ImmediateValue blobFileValue=5:BlobFileValue
ImmediateValue tensor=1:TensorValue tuple=2:TupleValue list=3:TupleValue
TupleValue values=1:Value*
TensorValue floats=1:Floats ints=2:Ints bools=3:Bools strings=4:Strings longInts=5:LongInts doubles=6:Doubles
  bytes=7:Bytes
Floats values=1:float*
Ints values=1:int32*
Bools values=1:bool*
Strings values=1:string*
LongInts values=1:int64*
Doubles values=1:double*
Bytes values=1:bytes
BlobFileValue fileName=1:string offset=2:uint64
Block inputs=1:NamedValueType* outputs=2:string* operations=3:Operation*
Operation type=1:string inputs=2:map/string/Argument outputs=3:NamedValueType* blocks=4:Block*
  attributes=5:map/string/Value
Argument arguments=1:Binding*
Binding name=1:string value=2:Value
"""
    + MESSAGES,
    {
        "ColorSpace": "INVALID=0 GRAYSCALE=10 RGB=20 BGR=30 GRAYSCALE_FLOAT16=40",
        "ArrayDataType": "INVALID=0 FLOAT16=65552 FLOAT32=65568 DOUBLE=65600 INT32=131104 INT8=131080",
        "DataType": "UNUSED_TYPE=0 BOOL=1 STRING=2 FLOAT16=10 FLOAT32=11 FLOAT64=12 BFLOAT16=13 INT8=21 INT16=22 "
        "INT32=23 "
        "INT64=24 INT4=25 UINT8=31 UINT16=32 UINT32=33 UINT64=34 UINT4=35 UINT2=36 UINT1=37 UINT6=38 UINT3=39",
        **ENUMS,
    },
)

#: Element types of MIL in NumPy's terms.
DTYPES = {
    "BOOL": "bool", "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "BFLOAT16": "bfloat16",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16",
    "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip

_MIL = """
abs acos add affine argsort asin atan atanh avg_pool band_part batch_norm batch_to_space cast ceil clamped_relu
classify clip concat cond const constexpr_affine_dequantize constexpr_blockwise_shift_scale constexpr_cast
constexpr_lut_to_dense constexpr_lut_to_sparse constexpr_sparse_blockwise_shift_scale constexpr_sparse_to_dense conv
conv_quantized conv_transpose cos cosh crop crop_resize cumsum depth_to_space dequantize einsum elu equal erf exp exp2
expand_dims fill fill_like flatten2d floor floor_div gather gather_along_axis gather_nd gelu greater greater_equal gru
identity instance_norm inverse l2_norm l2_pool layer_norm leaky_relu less less_equal linear linear_activation
list_gather list_length list_read list_scatter list_write local_response_norm log logical_and logical_not logical_or
logical_xor lstm make_list matmul max_pool maximum minimum mod mul non_maximum_suppression non_zero not_equal one_hot
pad pixel_shuffle pixel_unshuffle pow prelu quantize random_bernoulli random_categorical random_normal random_uniform
range_1d read_state real_div reduce_argmax reduce_argmin reduce_l1_norm reduce_l2_norm reduce_log_sum
reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum reduce_sum_square relu relu6 resample
reshape reshape_like resize resize_bilinear resize_nearest_neighbor reverse reverse_sequence rnn round rsqrt
scaled_dot_product_attention scaled_tanh scatter scatter_along_axis scatter_nd select shape sigmoid sigmoid_hard sign
silu sin sinh slice_by_index slice_by_size slice_update sliding_windows softmax softplus softplus_parametric softsign
space_to_batch space_to_depth split sqrt square squeeze stack sub tan tanh threshold thresholded_relu tile topk
transpose upsample_bilinear upsample_nearest_neighbor while_loop
"""
#: The core operations of MIL, of all versions up to iOS 18.
MIL_OPERATIONS = tuple(_MIL.split())
