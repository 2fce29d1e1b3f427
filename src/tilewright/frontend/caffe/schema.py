"""The messages of Caffe, as `messages.py` reads them: those of BVLC, and the layers that forks for detection added.

Field numbers: https://github.com/BVLC/caffe/blob/master/src/caffe/proto/caffe.proto, and the SSD branch (from 200 on).
Fields of training are left out; both encodings pass over what they do not know.
"""

from tilewright.frontend.messages import Schema

_BLOBS = """
BlobShape dim=1:int64*
BlobProto num=1:int32 channels=2:int32 height=3:int32 width=4:int32 data=5:float* shape=7:BlobShape
  double_data=8:double*
"""

_MESSAGES = (
    _BLOBS
    + """
NetParameter name=1:string layers=2:V1LayerParameter* input=3:string* input_dim=4:int32* force_backward=5:bool
  state=6:NetState debug_info=7:bool input_shape=8:BlobShape* layer=100:LayerParameter*
NetState phase=1:enum/Phase=TEST level=2:int32 stage=3:string*
NetStateRule phase=1:enum/Phase min_level=2:int32 max_level=3:int32 stage=4:string* not_stage=5:string*
LayerParameter name=1:string type=2:string bottom=3:string* top=4:string* loss_weight=5:float* blobs=7:BlobProto*
  include=8:NetStateRule* exclude=9:NetStateRule* phase=10:enum/Phase argmax_param=103:ArgMaxParameter
  concat_param=104:ConcatParameter convolution_param=106:ConvolutionParameter dummy_data_param=109:DummyDataParameter
  eltwise_param=110:EltwiseParameter exp_param=111:ExpParameter inner_product_param=117:InnerProductParameter
  lrn_param=118:LRNParameter mvn_param=120:MVNParameter pooling_param=121:PoolingParameter
  power_param=122:PowerParameter
  relu_param=123:ReLUParameter softmax_param=125:SoftmaxParameter slice_param=126:SliceParameter
  threshold_param=128:ThresholdParameter python_param=130:PythonParameter prelu_param=131:PReLUParameter
  spp_param=132:SPPParameter reshape_param=133:ReshapeParameter log_param=134:ExpParameter
  flatten_param=135:FlattenParameter reduction_param=136:ReductionParameter embed_param=137:EmbedParameter
  tile_param=138:TileParameter batch_norm_param=139:BatchNormParameter elu_param=140:ELUParameter
  bias_param=141:ScaleParameter scale_param=142:ScaleParameter input_param=143:InputParameter
  crop_param=144:CropParameter parameter_param=145:ParameterParameter recurrent_param=146:RecurrentParameter
  swish_param=147:SwishParameter clip_param=148:ClipParameter permute_param=202:PermuteParameter
  prior_box_param=203:PriorBoxParameter detection_output_param=204:DetectionOutputParameter
  norm_param=206:NormalizeParameter interp_param=1100:InterpParameter shuffle_channel_param=1101:ShuffleChannelParameter
  upsample_param=1102:UpsampleParameter relu6_param=1103:ReLUParameter roi_pooling_param=1104:ROIPoolingParameter
  psroi_pooling_param=1105:PSROIPoolingParameter proposal_param=1106:ProposalParameter bn_param=1107:BNParameter
V1LayerParameter layer=1:V0LayerParameter bottom=2:string* top=3:string* name=4:string type=5:enum/V1Type
  blobs=6:BlobProto* concat_param=9:ConcatParameter convolution_param=10:ConvolutionParameter
  inner_product_param=17:InnerProductParameter lrn_param=18:LRNParameter pooling_param=19:PoolingParameter
  power_param=21:PowerParameter argmax_param=23:ArgMaxParameter eltwise_param=24:EltwiseParameter
  threshold_param=25:ThresholdParameter dummy_data_param=26:DummyDataParameter relu_param=30:ReLUParameter
  slice_param=31:SliceParameter include=32:NetStateRule* exclude=33:NetStateRule* mvn_param=34:MVNParameter
  softmax_param=39:SoftmaxParameter exp_param=41:ExpParameter
V0LayerParameter name=1:string type=2:string num_output=3:uint32 biasterm=4:bool=true pad=7:uint32 kernelsize=8:uint32
  group=9:uint32=1 stride=10:uint32=1 pool=11:enum/PoolMethod=MAX local_size=13:uint32=5 alpha=14:float=1
  beta=15:float=0.75 k=22:float=1 blobs=50:BlobProto* concat_dim=65:uint32=1
ArgMaxParameter out_max_val=1:bool top_k=2:uint32=1 axis=3:int32
ClipParameter min=1:float max=2:float
ConcatParameter concat_dim=1:uint32=1 axis=2:int32=1
BatchNormParameter use_global_stats=1:bool moving_average_fraction=2:float=.999 eps=3:float=1e-5
BNParameter slope_filler=1:FillerParameter bias_filler=2:FillerParameter momentum=3:float=.9 eps=4:float=1e-5
  frozen=5:bool
ConvolutionParameter num_output=1:uint32 bias_term=2:bool=true pad=3:uint32* kernel_size=4:uint32* group=5:uint32=1
  stride=6:uint32* pad_h=9:uint32 pad_w=10:uint32 kernel_h=11:uint32 kernel_w=12:uint32 stride_h=13:uint32
  stride_w=14:uint32 axis=16:int32=1 dilation=18:uint32*
CropParameter axis=1:int32=2 offset=2:uint32*
DummyDataParameter data_filler=1:FillerParameter* num=2:uint32* channels=3:uint32* height=4:uint32* width=5:uint32*
  shape=6:BlobShape*
FillerParameter type=1:string=constant value=2:float
EltwiseParameter operation=1:enum/EltwiseOp=SUM coeff=2:float*
ELUParameter alpha=1:float=1
EmbedParameter num_output=1:uint32 input_dim=2:uint32 bias_term=3:bool=true
ExpParameter base=1:float=-1 scale=2:float=1 shift=3:float=0
FlattenParameter axis=1:int32=1 end_axis=2:int32=-1
InnerProductParameter num_output=1:uint32 bias_term=2:bool=true axis=5:int32=1 transpose=6:bool
InputParameter shape=1:BlobShape*
LRNParameter local_size=1:uint32=5 alpha=2:float=1 beta=3:float=0.75 norm_region=4:enum/NormRegion=ACROSS_CHANNELS
  k=5:float=1
MVNParameter normalize_variance=1:bool=true across_channels=2:bool eps=3:float=1e-9
ParameterParameter shape=1:BlobShape
PoolingParameter pool=1:enum/PoolMethod=MAX kernel_size=2:uint32 stride=3:uint32=1 pad=4:uint32 kernel_h=5:uint32
  kernel_w=6:uint32 stride_h=7:uint32 stride_w=8:uint32 pad_h=9:uint32 pad_w=10:uint32 global_pooling=12:bool
  round_mode=13:enum/RoundMode=CEIL ceil_mode=1100:bool=true
PowerParameter power=1:float=1 scale=2:float=1 shift=3:float=0
PythonParameter module=1:string layer=2:string param_str=3:string
RecurrentParameter num_output=1:uint32 expose_hidden=5:bool
ReductionParameter operation=1:enum/ReductionOp=SUM axis=2:int32=0 coeff=3:float=1
ReLUParameter negative_slope=1:float=0
ReshapeParameter shape=1:BlobShape axis=2:int32=0 num_axes=3:int32=-1
ScaleParameter axis=1:int32=1 num_axes=2:int32=1 bias_term=4:bool
SliceParameter slice_dim=1:uint32=1 slice_point=2:uint32* axis=3:int32=1
SoftmaxParameter axis=2:int32=1
SwishParameter beta=1:float=1
TileParameter axis=1:int32=1 tiles=2:int32
ThresholdParameter threshold=1:float=0
SPPParameter pyramid_height=1:uint32 pool=2:enum/PoolMethod=MAX
PReLUParameter channel_shared=2:bool
PermuteParameter order=1:uint32*
PriorBoxParameter min_size=1:float* max_size=2:float* aspect_ratio=3:float* flip=4:bool=true clip=5:bool
  variance=6:float*
  img_size=7:uint32 img_h=8:uint32 img_w=9:uint32 step=10:float step_h=11:float step_w=12:float offset=13:float=0.5
NormalizeParameter across_spatial=1:bool=true channel_shared=3:bool=true eps=4:float=1e-10
DetectionOutputParameter num_classes=1:uint32 share_location=2:bool=true background_label_id=3:int32=0
  nms_param=4:NonMaximumSuppressionParameter code_type=6:enum/CodeType=CORNER variance_encoded_in_target=8:bool
  keep_top_k=7:int32=-1 confidence_threshold=9:float
NonMaximumSuppressionParameter nms_threshold=1:float=0.3 top_k=2:int32 eta=3:float=1
InterpParameter height=1:int32 width=2:int32 zoom_factor=3:int32=1 shrink_factor=4:int32=1 pad_beg=5:int32
  pad_end=6:int32
ShuffleChannelParameter group=1:uint32=1
UpsampleParameter scale=1:int32=2 scale_h=2:int32 scale_w=3:int32 upsample_h=6:int32 upsample_w=7:int32
ROIPoolingParameter pooled_h=1:uint32 pooled_w=2:uint32 spatial_scale=3:float=1
PSROIPoolingParameter spatial_scale=1:float output_dim=2:int32 group_size=3:int32
ProposalParameter feat_stride=1:uint32=16 base_size=2:uint32=16 min_size=3:uint32=16 ratio=4:float* scale=5:float*
  pre_nms_topn=6:uint32=6000 post_nms_topn=7:uint32=300 nms_thresh=8:float=0.7
"""
)

_ENUMS = {
    "Phase": "TRAIN=0 TEST=1",
    "EltwiseOp": "PROD=0 SUM=1 MAX=2",
    "NormRegion": "ACROSS_CHANNELS=0 WITHIN_CHANNEL=1",
    "PoolMethod": "MAX=0 AVE=1 STOCHASTIC=2",
    "RoundMode": "CEIL=0 FLOOR=1",
    "ReductionOp": "SUM=1 ASUM=2 SUMSQ=3 MEAN=4",
    "CodeType": "CORNER=1 CENTER_SIZE=2 CORNER_SIZE=3",
    "V1Type": "NONE=0 ABSVAL=35 ACCURACY=1 ARGMAX=30 BNLL=2 CONCAT=3 CONTRASTIVE_LOSS=37 CONVOLUTION=4 DATA=5 "
    "DECONVOLUTION=39 DROPOUT=6 DUMMY_DATA=32 EUCLIDEAN_LOSS=7 ELTWISE=25 EXP=38 FLATTEN=8 HDF5_DATA=9 HDF5_OUTPUT=10 "
    "HINGE_LOSS=28 IM2COL=11 IMAGE_DATA=12 INFOGAIN_LOSS=13 INNER_PRODUCT=14 LRN=15 MEMORY_DATA=29 "
    "MULTINOMIAL_LOGISTIC_LOSS=16 MVN=34 POOLING=17 POWER=26 RELU=18 SIGMOID=19 SIGMOID_CROSS_ENTROPY_LOSS=27 "
    "SILENCE=36 SOFTMAX=20 SOFTMAX_LOSS=21 SPLIT=22 SLICE=33 TANH=23 WINDOW_DATA=24 THRESHOLD=31",
}

NET = Schema(_MESSAGES, _ENUMS)

#: Of a file of weights only names and blobs: forks number the parameters of their layers differently.
WEIGHTS = Schema(
    _BLOBS
    + """
NetParameter layers=2:V1LayerParameter* layer=100:LayerParameter*
LayerParameter name=1:string type=2:string blobs=7:BlobProto*
V1LayerParameter layer=1:V0LayerParameter name=4:string blobs=6:BlobProto*
V0LayerParameter name=1:string blobs=50:BlobProto*
"""
)
