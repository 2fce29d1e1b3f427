"""The messages of Core ML's neural networks, as `messages.py` reads them; layers without parameters are `Other`.

https://apple.github.io/coremltools/mlmodel/Format/NeuralNetwork.html
"""

MESSAGES = """
NeuralNetwork layers=1:NeuralNetworkLayer* preprocessing=2:NeuralNetworkPreprocessing*
  arrayInputShapeMapping=5:enum/NeuralNetworkMultiArrayShapeMapping
  imageInputShapeMapping=6:enum/NeuralNetworkImageShapeMapping stringClassLabels=100:StringVector
  labelProbabilityLayerName=200:string
NeuralNetworkLayer name=1:string input=2:string* output=3:string* convolution=100:ConvolutionLayerParams
  pooling=120:PoolingLayerParams activation=130:ActivationParams innerProduct=140:InnerProductLayerParams
  embedding=150:EmbeddingLayerParams batchnorm=160:BatchnormLayerParams mvn=165:MeanVarianceNormalizeLayerParams
  l2normalize=170:L2NormalizeLayerParams softmax=175:Other lrn=180:LRNLayerParams crop=190:CropLayerParams
  padding=200:PaddingLayerParams upsample=210:UpsampleLayerParams resizeBilinear=211:ResizeBilinearLayerParams
  cropResize=212:Other unary=220:UnaryFunctionLayerParams add=230:AddLayerParams multiply=231:MultiplyLayerParams
  average=240:Other scale=245:ScaleLayerParams bias=250:BiasLayerParams max=260:Other min=261:Other
  dot=270:DotProductLayerParams reduce=280:ReduceLayerParams loadConstant=290:LoadConstantLayerParams
  reshape=300:ReshapeLayerParams flatten=301:FlattenLayerParams permute=310:PermuteLayerParams
  concat=320:ConcatLayerParams split=330:SplitLayerParams sequenceRepeat=340:SequenceRepeatLayerParams
  reorganizeData=345:ReorganizeDataLayerParams slice=350:SliceLayerParams
  simpleRecurrent=400:SimpleRecurrentLayerParams gru=410:GRULayerParams
  uniDirectionalLSTM=420:UniDirectionalLSTMLayerParams biDirectionalLSTM=430:BiDirectionalLSTMLayerParams
  custom=500:Other copy=600:Other branch=605:BranchLayerParams loop=615:LoopLayerParams
  loopBreak=620:Other loopContinue=625:Other
  rangeStatic=635:RangeStaticLayerParams rangeDynamic=640:Other clip=660:ClipLayerParams ceil=665:Other
  floor=670:Other sign=680:Other round=685:Other exp2=700:Other sin=710:Other cos=715:Other tan=720:Other
  asin=730:Other acos=735:Other atan=740:Other sinh=750:Other cosh=755:Other tanh=760:Other asinh=770:Other
  acosh=775:Other atanh=780:Other erf=790:Other gelu=795:GeluLayerParams equal=815:EqualLayerParams
  notEqual=820:NotEqualLayerParams lessThan=825:LessThanLayerParams lessEqual=827:LessEqualLayerParams
  greaterThan=830:GreaterThanLayerParams greaterEqual=832:GreaterEqualLayerParams logicalOr=840:Other
  logicalXor=845:Other logicalNot=850:Other logicalAnd=855:Other modBroadcastable=865:Other minBroadcastable=870:Other
  maxBroadcastable=875:Other addBroadcastable=880:Other powBroadcastable=885:Other divideBroadcastable=890:Other
  floorDivBroadcastable=895:Other multiplyBroadcastable=900:Other subtractBroadcastable=905:Other
  tile=920:TileLayerParams stack=925:StackLayerParams gather=930:GatherLayerParams scatter=935:ScatterLayerParams
  gatherND=940:Other scatterND=945:ScatterNDLayerParams softmaxND=950:SoftmaxNDLayerParams
  gatherAlongAxis=952:GatherAlongAxisLayerParams scatterAlongAxis=954:ScatterAlongAxisLayerParams
  reverse=960:ReverseLayerParams reverseSeq=965:ReverseSeqLayerParams splitND=975:SplitNDLayerParams
  concatND=980:ConcatNDLayerParams transpose=985:TransposeLayerParams sliceStatic=995:SliceStaticLayerParams
  sliceDynamic=1000:Other slidingWindows=1005:SlidingWindowsLayerParams topK=1015:TopKLayerParams
  argMin=1020:ArgMinLayerParams argMax=1025:ArgMaxLayerParams embeddingND=1040:EmbeddingNDLayerParams
  batchedMatmul=1045:BatchedMatMulLayerParams getShape=1065:Other loadConstantND=1070:LoadConstantNDLayerParams
  fillLike=1080:FillLikeLayerParams fillStatic=1085:FillStaticLayerParams fillDynamic=1090:Other
  broadcastToLike=1100:Other broadcastToStatic=1105:BroadcastToStaticLayerParams broadcastToDynamic=1110:Other
  squeeze=1120:SqueezeLayerParams expandDims=1125:ExpandDimsLayerParams flattenTo2D=1130:FlattenTo2DLayerParams
  reshapeLike=1135:Other reshapeStatic=1140:ReshapeStaticLayerParams reshapeDynamic=1145:Other
  rankPreservingReshape=1150:RankPreservingReshapeLayerParams constantPad=1155:ConstantPaddingLayerParams
  randomNormalLike=1170:Other randomNormalStatic=1175:Other randomNormalDynamic=1180:Other
  randomUniformLike=1190:Other randomUniformStatic=1195:Other randomUniformDynamic=1200:Other
  randomBernoulliLike=1210:Other randomBernoulliStatic=1215:Other randomBernoulliDynamic=1220:Other
  categoricalDistribution=1230:Other reduceL1=1250:ReduceAxes reduceL2=1255:ReduceAxes reduceMax=1260:ReduceAxes
  reduceMin=1265:ReduceAxes reduceSum=1270:ReduceAxes reduceProd=1275:ReduceAxes reduceMean=1280:ReduceAxes
  reduceLogSum=1285:ReduceAxes reduceSumSquare=1290:ReduceAxes reduceLogSumExp=1295:ReduceAxes whereNonZero=1313:Other
  matrixBandPart=1315:MatrixBandPartLayerParams lowerTriangular=1320:LowerTriangularLayerParams
  upperTriangular=1325:UpperTriangularLayerParams whereBroadcastable=1330:Other
  layerNormalization=1350:LayerNormalizationLayerParams NonMaximumSuppression=1400:Other oneHot=1450:OneHotLayerParams
  cumSum=1455:CumSumLayerParams clampedReLU=1460:ClampedReLULayerParams argSort=1461:ArgSortLayerParams
  pooling3d=1465:Pooling3DLayerParams globalPooling3d=1466:GlobalPooling3DLayerParams
  sliceBySize=1470:SliceBySizeLayerParams convolution3d=1471:Convolution3DLayerParams
ConvolutionLayerParams outputChannels=1:uint64 kernelChannels=2:uint64 nGroups=10:uint64 kernelSize=20:uint64*
  stride=30:uint64* dilationFactor=40:uint64* valid=50:ValidPadding same=51:SamePadding isDeconvolution=60:bool
  hasBias=70:bool weights=90:WeightParams bias=91:WeightParams outputShape=100:uint64*
ValidPadding paddingAmounts=1:BorderAmounts
BorderAmounts borderAmounts=10:EdgeSizes*
EdgeSizes startEdgeSize=1:uint64 endEdgeSize=2:uint64
SamePadding asymmetryMode=1:enum/SamePaddingMode
WeightParams floatValue=1:float* float16Value=2:bytes rawValue=30:bytes int8RawValue=31:bytes
  quantization=40:QuantizationParams
QuantizationParams numberOfBits=1:uint64 linearQuantization=101:LinearQuantizationParams
  lookupTableQuantization=102:LookUpTableQuantizationParams
LinearQuantizationParams scale=1:float* bias=2:float*
LookUpTableQuantizationParams floatValue=1:float*
PoolingLayerParams type=1:enum/PoolingType kernelSize=10:uint64* stride=20:uint64* valid=30:ValidPadding
  same=31:SamePadding includeLastPixel=32:ValidCompletePadding avgPoolExcludePadding=50:bool globalPooling=60:bool
ValidCompletePadding paddingAmounts=10:uint64*
ActivationParams linear=5:ActivationLinear ReLU=10:Other leakyReLU=15:ActivationLeakyReLU
  thresholdedReLU=20:ActivationThresholdedReLU PReLU=25:ActivationPReLU tanh=30:Other
  scaledTanh=31:ActivationScaledTanh sigmoid=40:Other sigmoidHard=41:ActivationSigmoidHard ELU=50:ActivationELU
  softsign=60:Other softplus=70:Other parametricSoftplus=71:ActivationParametricSoftplus
ActivationLinear alpha=1:float beta=2:float
ActivationLeakyReLU alpha=1:float
ActivationThresholdedReLU alpha=1:float
ActivationPReLU alpha=1:WeightParams
ActivationScaledTanh alpha=1:float beta=2:float
ActivationSigmoidHard alpha=1:float beta=2:float
ActivationELU alpha=1:float
ActivationParametricSoftplus alpha=1:WeightParams beta=2:WeightParams
InnerProductLayerParams inputChannels=1:uint64 outputChannels=2:uint64 hasBias=10:bool weights=20:WeightParams
  bias=21:WeightParams int8DynamicQuantize=22:bool
EmbeddingLayerParams inputDim=1:uint64 outputChannels=2:uint64 hasBias=10:bool weights=20:WeightParams
  bias=21:WeightParams
BatchnormLayerParams channels=1:uint64 computeMeanVar=5:bool instanceNormalization=6:bool epsilon=10:float
  gamma=15:WeightParams beta=16:WeightParams mean=17:WeightParams variance=18:WeightParams
MeanVarianceNormalizeLayerParams acrossChannels=1:bool normalizeVariance=2:bool epsilon=3:float
L2NormalizeLayerParams epsilon=1:float
LRNLayerParams alpha=1:float beta=2:float localSize=3:uint64 k=4:float
CropLayerParams cropAmounts=1:BorderAmounts offset=5:uint64*
PaddingLayerParams constant=1:PaddingConstant reflection=2:Other replication=3:Other paddingAmounts=10:BorderAmounts
PaddingConstant value=1:float
UpsampleLayerParams scalingFactor=1:uint64* fractionalScalingFactor=7:float* mode=5:enum/InterpolationMode
  linearUpsampleMode=6:enum/LinearUpsampleMode
ResizeBilinearLayerParams targetSize=1:uint64* mode=2:SamplingMode
SamplingMode samplingMethod=1:enum/Method
UnaryFunctionLayerParams type=1:enum/Operation alpha=2:float epsilon=3:float shift=4:float scale=5:float
AddLayerParams alpha=1:float
MultiplyLayerParams alpha=1:float
ScaleLayerParams shapeScale=1:uint64* scale=2:WeightParams hasBias=3:bool shapeBias=4:uint64* bias=5:WeightParams
BiasLayerParams shape=1:uint64* bias=2:WeightParams
DotProductLayerParams cosineSimilarity=1:bool
ReduceLayerParams mode=1:enum/ReduceOperation epsilon=2:float axis=3:enum/ReduceAxis
LoadConstantLayerParams shape=1:uint64* data=2:WeightParams
ReshapeLayerParams targetShape=1:int64* mode=2:enum/ReshapeOrder
FlattenLayerParams mode=1:enum/FlattenOrder
PermuteLayerParams axis=1:uint64*
ConcatLayerParams sequenceConcat=100:bool
SplitLayerParams nOutputs=1:uint64
SequenceRepeatLayerParams nRepetitions=1:uint64
ReorganizeDataLayerParams mode=1:enum/ReorganizationType blockSize=2:uint64
SliceLayerParams startIndex=1:int64 endIndex=2:int64 stride=3:uint64 axis=4:enum/SliceAxis
SimpleRecurrentLayerParams inputVectorSize=1:uint64 outputVectorSize=2:uint64 activation=10:ActivationParams
  sequenceOutput=15:bool hasBiasVector=20:bool weightMatrix=30:WeightParams recursionMatrix=31:WeightParams
  biasVector=32:WeightParams reverseInput=100:bool
GRULayerParams inputVectorSize=1:uint64 outputVectorSize=2:uint64 activations=10:ActivationParams*
  sequenceOutput=15:bool hasBiasVectors=20:bool updateGateWeightMatrix=30:WeightParams
  resetGateWeightMatrix=31:WeightParams outputGateWeightMatrix=32:WeightParams
  updateGateRecursionMatrix=50:WeightParams resetGateRecursionMatrix=51:WeightParams
  outputGateRecursionMatrix=52:WeightParams updateGateBiasVector=70:WeightParams resetGateBiasVector=71:WeightParams
  outputGateBiasVector=72:WeightParams reverseInput=100:bool
UniDirectionalLSTMLayerParams inputVectorSize=1:uint64 outputVectorSize=2:uint64 activations=10:ActivationParams*
  params=15:LSTMParams weightParams=20:LSTMWeightParams reverseInput=100:bool
LSTMParams sequenceOutput=10:bool hasBiasVectors=20:bool forgetBias=30:bool hasPeepholeVectors=40:bool
  coupledInputAndForgetGate=50:bool cellClipThreshold=60:float
LSTMWeightParams inputGateWeightMatrix=1:WeightParams forgetGateWeightMatrix=2:WeightParams
  blockInputWeightMatrix=3:WeightParams outputGateWeightMatrix=4:WeightParams inputGateRecursionMatrix=20:WeightParams
  forgetGateRecursionMatrix=21:WeightParams blockInputRecursionMatrix=22:WeightParams
  outputGateRecursionMatrix=23:WeightParams inputGateBiasVector=40:WeightParams forgetGateBiasVector=41:WeightParams
  blockInputBiasVector=42:WeightParams outputGateBiasVector=43:WeightParams inputGatePeepholeVector=60:WeightParams
  forgetGatePeepholeVector=61:WeightParams outputGatePeepholeVector=62:WeightParams
BiDirectionalLSTMLayerParams inputVectorSize=1:uint64 outputVectorSize=2:uint64
  activationsForwardLSTM=10:ActivationParams* activationsBackwardLSTM=11:ActivationParams* params=15:LSTMParams
  weightParams=20:LSTMWeightParams*
RangeStaticLayerParams endValue=1:float startValue=2:float stepSizeValue=3:float
ClipLayerParams minVal=1:float maxVal=2:float
GeluLayerParams mode=1:enum/GeluMode
EqualLayerParams alpha=1:float
NotEqualLayerParams alpha=1:float
LessThanLayerParams alpha=2:float
LessEqualLayerParams alpha=2:float
GreaterThanLayerParams alpha=2:float
GreaterEqualLayerParams alpha=2:float
TileLayerParams reps=1:uint64*
StackLayerParams axis=1:int64
GatherLayerParams axis=1:int64
ScatterLayerParams axis=1:int64 mode=2:enum/ScatterMode
ScatterNDLayerParams mode=1:enum/ScatterMode
SoftmaxNDLayerParams axis=1:int64
GatherAlongAxisLayerParams axis=1:int64
ScatterAlongAxisLayerParams axis=1:int64 mode=2:enum/ScatterMode
ReverseLayerParams reverseDim=1:bool*
ReverseSeqLayerParams batchAxis=1:int64 sequenceAxis=2:int64
SplitNDLayerParams axis=1:int64 numSplits=2:uint64 splitSizes=3:uint64*
ConcatNDLayerParams axis=1:int64 interleave=2:bool
TransposeLayerParams axes=1:uint64*
SliceStaticLayerParams beginIds=1:int64* beginMasks=2:bool* endIds=3:int64* endMasks=4:bool* strides=5:int64*
  squeezeMasks=6:bool*
SlidingWindowsLayerParams axis=1:int64 windowSize=2:uint64 step=3:uint64
TopKLayerParams axis=1:int64 K=2:uint64 useBottomK=3:bool
ArgMinLayerParams axis=1:int64 removeDim=2:bool
ArgMaxLayerParams axis=1:int64 removeDim=2:bool
EmbeddingNDLayerParams vocabSize=1:uint64 embeddingSize=2:uint64 hasBias=3:bool weights=20:WeightParams
  bias=21:WeightParams
BatchedMatMulLayerParams transposeA=1:bool transposeB=2:bool weightMatrixFirstDimension=5:uint64
  weightMatrixSecondDimension=6:uint64 hasBias=7:bool weights=8:WeightParams bias=9:WeightParams
  int8DynamicQuantize=10:bool
LoadConstantNDLayerParams shape=1:uint64* data=2:WeightParams
FillLikeLayerParams value=1:float
FillStaticLayerParams value=1:float targetShape=2:uint64*
BroadcastToStaticLayerParams targetShape=1:uint64*
SqueezeLayerParams axes=1:int64* squeezeAll=2:bool
ExpandDimsLayerParams axes=1:int64*
FlattenTo2DLayerParams axis=1:int64
ReshapeStaticLayerParams targetShape=1:int64*
RankPreservingReshapeLayerParams targetShape=1:int64*
ConstantPaddingLayerParams value=1:float padAmounts=2:uint64* padToGivenOutputSizeMode=3:bool
MatrixBandPartLayerParams numLower=1:int64 numUpper=2:int64
LowerTriangularLayerParams k=1:int64
UpperTriangularLayerParams k=1:int64
LayerNormalizationLayerParams normalizedShape=1:int64* eps=2:float gamma=3:WeightParams beta=4:WeightParams
OneHotLayerParams oneHotVectorSize=1:uint64 axis=2:int64 onValue=3:float offValue=4:float
CumSumLayerParams axis=1:int64 excludeFinalSum=2:bool reverse=3:bool
ClampedReLULayerParams alpha=1:float beta=2:float
ArgSortLayerParams axis=1:int64 descending=2:bool
Pooling3DLayerParams type=1:enum/PoolingType3D kernelDepth=2:int32 kernelHeight=3:int32 kernelWidth=4:int32
  strideDepth=5:int32 strideHeight=6:int32 strideWidth=7:int32 paddingType=15:enum/Pooling3DPaddingType
  customPaddingFront=8:int32 customPaddingBack=9:int32 customPaddingTop=10:int32 customPaddingBottom=11:int32
  customPaddingLeft=12:int32 customPaddingRight=13:int32 countExcludePadding=14:bool
GlobalPooling3DLayerParams type=1:enum/GlobalPoolingType3D
SliceBySizeLayerParams size=2:int64 axis=3:int64
Convolution3DLayerParams outputChannels=1:int32 inputChannels=2:int32 nGroups=10:int32 kernelDepth=20:int32
  kernelHeight=21:int32 kernelWidth=22:int32 strideDepth=31:int32 strideHeight=32:int32 strideWidth=33:int32
  dilationDepth=40:int32 dilationHeight=41:int32 dilationWidth=42:int32 hasBias=50:bool weights=60:WeightParams
  bias=61:WeightParams paddingType=70:enum/PaddingType customPaddingFront=80:int32 customPaddingBack=81:int32
  customPaddingTop=82:int32 customPaddingBottom=83:int32 customPaddingLeft=84:int32 customPaddingRight=85:int32
  isDeconvolution=86:bool outputShape=87:uint64*
NeuralNetworkPreprocessing featureName=1:string scaler=10:NeuralNetworkImageScaler meanImage=11:NeuralNetworkMeanImage
NeuralNetworkImageScaler channelScale=10:float blueBias=20:float greenBias=21:float redBias=22:float grayBias=30:float
NeuralNetworkMeanImage meanImage=1:float*
BranchLayerParams ifBranch=1:NeuralNetwork elseBranch=2:NeuralNetwork
LoopLayerParams maxLoopIterations=1:uint64 conditionVar=2:string conditionNetwork=3:NeuralNetwork
  bodyNetwork=4:NeuralNetwork
ReduceAxes axes=1:int64* keepDims=2:bool reduceAll=3:bool
"""

ENUMS = {
    "NeuralNetworkMultiArrayShapeMapping": "RANK5_ARRAY_MAPPING=0 EXACT_ARRAY_MAPPING=1",
    "NeuralNetworkImageShapeMapping": "RANK5_IMAGE_MAPPING=0 RANK4_IMAGE_MAPPING=1",
    "SamePaddingMode": "BOTTOM_RIGHT_HEAVY=0 TOP_LEFT_HEAVY=1",
    "PoolingType": "MAX=0 AVERAGE=1 L2=2",
    "InterpolationMode": "NN=0 BILINEAR=1",
    "LinearUpsampleMode": "DEFAULT=0 ALIGN_CORNERS_TRUE=1 ALIGN_CORNERS_FALSE=2",
    "Method": "STRICT_ALIGN_ENDPOINTS_MODE=0 ALIGN_ENDPOINTS_MODE=1 UPSAMPLE_MODE=2 ROI_ALIGN_MODE=3",
    "Operation": "SQRT=0 RSQRT=1 INVERSE=2 POWER=3 EXP=4 LOG=5 ABS=6 THRESHOLD=7",
    "ReduceOperation": "SUM=0 AVG=1 PROD=2 LOGSUM=3 SUMSQUARE=4 L1=5 L2=6 MAX=7 MIN=8 ARGMAX=9",
    "ReduceAxis": "CHW=0 HW=1 C=2 H=3 W=4",
    "ReshapeOrder": "CHANNEL_FIRST=0 CHANNEL_LAST=1",
    "FlattenOrder": "CHANNEL_FIRST=0 CHANNEL_LAST=1",
    "ReorganizationType": "SPACE_TO_DEPTH=0 DEPTH_TO_SPACE=1 PIXEL_SHUFFLE=2",
    "SliceAxis": "CHANNEL_AXIS=0 HEIGHT_AXIS=1 WIDTH_AXIS=2",
    "GeluMode": "EXACT=0 TANH_APPROXIMATION=1 SIGMOID_APPROXIMATION=2",
    "ScatterMode": "SCATTER_UPDATE=0 SCATTER_ADD=1 SCATTER_SUB=2 SCATTER_MUL=3 "
    "SCATTER_DIV=4 SCATTER_MAX=5 SCATTER_MIN=6",
    "PoolingType3D": "MAX=0 AVERAGE=1",
    "Pooling3DPaddingType": "CUSTOM=0 VALID=1 SAME=2",
    "GlobalPoolingType3D": "MAX=0 AVERAGE=1",
    "PaddingType": "CUSTOM=0 VALID=1 SAME=2",
}
