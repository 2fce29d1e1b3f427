"""Cases of TensorFlow's operators: functions of `tf` and the arrays that they are called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

Case = tuple[str, Callable[..., Any], list[np.ndarray]]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers around 0."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def positive(*shape: int) -> np.ndarray:
    """Numbers of 0.1 … 0.9."""
    return np.random.default_rng(1).uniform(0.1, 0.9, shape).astype("float32")


def whole(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> np.ndarray:
    """Whole numbers."""
    return np.random.default_rng(2).integers(low, high, shape).astype(dtype)


def cases(tf: Any) -> list[Case]:
    """Every case, by the raw operator that it is about."""
    raw = tf.raw_ops
    found: list[Case] = []

    def add(name: str, *arrays: np.ndarray, label: str = "", **attributes: Any) -> None:
        function = getattr(raw, name)
        order = [key for key in _inputs(function) if key not in attributes]
        call = lambda *given: function(**dict(zip(order, given)), **attributes)  # noqa: E731
        found.append((f"{name}{label}", call, list(arrays)))

    for name in (
        "Abs", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Acos", "Ceil", "Cos", "Cosh", "Erf", "Erfc",
        "Exp", "Expm1", "Floor", "Log", "Log1p", "Neg", "Rint", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh",
        "Sqrt", "Tan", "Tanh", "IsNan", "IsInf", "IsFinite", "Elu", "Selu", "Softplus", "Softsign", "Relu6",
        "Relu", "Erfinv", "Ndtri", "Square", "Reciprocal", "Inv", "ZerosLike", "OnesLike", "Round",
    ):  # fmt: skip
        data = positive(3, 4) + (1 if name == "Acosh" else 0)
        add(
            name,
            data if name not in ("Relu", "Relu6", "Elu", "Selu", "Abs", "Sign", "Neg", "Round") else floats(3, 4) * 4,
        )
    for name in (
        "Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "Pow", "RealDiv", "Div", "Atan2",
        "SquaredDifference", "DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py", "FloorDiv", "FloorMod",
        "Mod", "Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual",
    ):  # fmt: skip
        add(name, positive(3, 4), positive(4) + 0.2)
    for name in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Maximum"):
        add(name, whole(3, 4), whole(4, low=1), label="(int32)")
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"):
        add(name, whole(3, 4, low=0), whole(4, low=0, high=4))
    for name in ("LeftShift", "RightShift"):
        add(name, whole(3, 4, dtype="int8"), whole(4, low=-3, high=12, dtype="int8"), label="(beyond the bits)")
    add("Invert", whole(3, 4))
    for name in ("LogicalAnd", "LogicalOr"):
        add(name, floats(3, 4) > 0, floats(4, seed=3) > 0)
    add("LogicalNot", floats(3, 4) > 0)
    add("LeakyRelu", floats(3, 4), alpha=0.3)
    add("ClipByValue", floats(3, 4), np.float32(-0.5), np.float32(0.7))
    add("ClipByValue", floats(3, 4), np.float32(0.7), np.float32(-0.5), label="(crossed)")
    ends = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], "float32")
    add("Atan2", ends.reshape(-1, 1), ends, label="(special)")
    found.append(("AddN", lambda a, b: raw.AddN(inputs=[a, b, a]), [floats(3), floats(3)]))
    add("BiasAdd", floats(2, 3, 4, 5), floats(5), data_format="NHWC")
    add("Cast", floats(3, 4) * 5, DstT=tf.int32)
    add("Bitcast", floats(3, 4), type=tf.int32)
    add("SelectV2", floats(3, 1) > 0, floats(3, 4), floats(4))
    add("Select", floats(3) > 0, floats(3, 4), floats(3, 4, seed=5))
    for name in ("Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm"):
        for keep in (False, True):
            add(name, floats(3, 4, 5), axis=[0, -1], keep_dims=keep, label=f"({keep})")
    for name in ("All", "Any"):
        add(name, floats(3, 4) > -0.5, axis=[1])
    for name in ("ArgMax", "ArgMin"):
        add(name, floats(3, 4), dimension=1)
    for name in ("Cumsum", "Cumprod"):
        for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
            add(name, floats(3, 4), axis=1, exclusive=exclusive, reverse=reverse, label=f"({exclusive}, {reverse})")
    add("TopKV2", floats(3, 7), k=3)
    add("LowerBound", np.sort(floats(2, 7)), floats(2, 4))
    add("UpperBound", np.sort(floats(2, 7)), floats(2, 4))
    ids = np.array([0, 0, 2, 1], "int32")
    for name in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"):
        add(name, floats(4, 3), ids, num_segments=4)
    for name in ("SegmentSum", "SegmentMax", "SegmentMean"):
        add(name, floats(4, 3), segment_ids=np.array([0, 0, 1, 2], "int32"))
    # ---------------------------------------------------------------------------------------------------------- shapes
    add("Reshape", floats(3, 4), shape=[2, -1])
    add("Squeeze", floats(3, 1, 4), axis=[1])
    add("ExpandDims", floats(3, 4), axis=-2)
    add("Transpose", floats(3, 4, 5), perm=[2, 0, 1])
    add("BroadcastTo", floats(4), shape=[3, 4])
    add("Tile", floats(2, 3), multiples=[2, 1])
    found.append(("Pack", lambda a, b: raw.Pack(values=[a, b], axis=1), [floats(3, 4), floats(3, 4)]))
    add("Unpack", floats(3, 4), num=4, axis=1)
    found.append(("ConcatV2", lambda a, b: raw.ConcatV2(values=[a, b], axis=1), [floats(3, 4), floats(3, 2)]))
    found.append(("Split", lambda a: raw.Split(axis=1, value=a, num_split=2), [floats(3, 4)]))
    found.append(("SplitV", lambda a: raw.SplitV(value=a, size_splits=[1, -1], axis=1, num_split=2), [floats(3, 4)]))
    add("Slice", floats(3, 4, 5), begin=[1, 0, 2], size=[2, -1, 2])
    found.append(("StridedSlice", lambda a: a[1:, None, ..., ::-2], [floats(3, 4, 5)]))
    found.append(("StridedSlice(shrink)", lambda a: a[-1, :, 2], [floats(3, 4, 5)]))
    add("Pad", floats(3, 4), paddings=[[1, 2], [0, 3]])
    add("PadV2", floats(3, 4), paddings=[[1, 2], [0, 3]], constant_values=2.5)
    for mode in ("REFLECT", "SYMMETRIC"):
        add("MirrorPad", floats(3, 4), paddings=[[1, 2], [0, 3]], mode=mode, label=f"({mode})")
    add("ReverseV2", floats(3, 4), axis=[1])
    add("ReverseSequence", floats(3, 4), np.array([1, 4, 2], "int64"), seq_dim=1)
    add("Roll", floats(3, 4), shift=[1, -1], axis=[0, 1])
    add("MatrixBandPart", floats(2, 4, 5), num_lower=1, num_upper=2)
    found.append(("MatrixDiagV3", lambda a: tf.linalg.diag(a), [floats(2, 3)]))
    found.append(("MatrixDiagPartV3", lambda a: tf.linalg.diag_part(a), [floats(2, 3, 4)]))
    found.append(("MatrixSetDiagV3", lambda a, b: tf.linalg.set_diag(a, b), [floats(2, 3, 4), floats(2, 3)]))
    add("SpaceToDepth", floats(2, 4, 6, 3), block_size=2)
    add("DepthToSpace", floats(2, 4, 6, 8), block_size=2)
    add("SpaceToBatchND", floats(2, 4, 6, 3), block_shape=[2, 3], paddings=[[0, 0], [3, 0]])
    add("BatchToSpaceND", floats(12, 2, 3, 3), block_shape=[2, 3], crops=[[0, 1], [1, 0]])
    found.append(("Shape", lambda a: tf.reshape(a, [tf.shape(a)[0] * 2, -1]), [floats(3, 4)]))
    # -------------------------------------------------------------------------------------------------------- indexing
    add("GatherV2", floats(5, 4), whole(3, low=0, high=5), axis=0)
    found.append(
        (
            "GatherV2(batch)",
            lambda a, b: tf.gather(a, b, axis=2, batch_dims=1),
            [floats(3, 2, 5, 2), whole(3, 4, low=0, high=5)],
        )
    )
    add("GatherNd", floats(5, 4, 2), whole(3, 2, low=0, high=4))
    for name in ("Update", "Add", "Sub", "Max", "Min"):
        add(f"TensorScatter{name}", floats(5, 3), np.array([[1], [3]], "int32"), floats(2, 3, seed=4))
    add("ScatterNd", np.array([[1], [3], [1]], "int32"), floats(3, 2), shape=[5, 2])
    found.append(("OneHot", lambda a: tf.one_hot(a, 6, 2.0, -1.0), [whole(3, 4, low=0, high=6)]))
    found.append(("OneHot(axis)", lambda a: tf.one_hot(a, 6, axis=0), [whole(3, 4, low=0, high=6)]))
    # -------------------------------------------------------------------------------------------------------- networks
    add("MatMul", floats(4, 3), floats(5, 4), transpose_a=True, transpose_b=True)
    add("BatchMatMulV2", floats(2, 1, 3, 4), floats(5, 6, 4), adj_y=True)
    found.append(("Einsum", lambda a, b: tf.einsum("bij,kj->bki", a, b), [floats(2, 3, 4), floats(5, 4)]))
    for padding in ("SAME", "VALID"):
        add(
            "Conv2D",
            floats(2, 8, 9, 4),
            floats(3, 3, 4, 5),
            strides=[1, 2, 2, 1],
            padding=padding,
            label=f"({padding})",
        )
        add("Conv2D", floats(2, 8, 9, 4), floats(3, 3, 2, 6), strides=[1, 1, 1, 1], dilations=[1, 2, 2, 1],
            padding=padding, label=f"({padding}, groups)")  # fmt: skip
        add(
            "DepthwiseConv2dNative",
            floats(2, 8, 9, 4),
            floats(3, 3, 4, 2),
            strides=[1, 2, 2, 1],
            padding=padding,
            label=f"({padding})",
        )
        add(
            "Conv3D",
            floats(1, 5, 6, 7, 2),
            floats(3, 3, 3, 2, 4),
            strides=[1, 2, 2, 2, 1],
            padding=padding,
            label=f"({padding})",
        )
        for name in ("MaxPool", "AvgPool"):
            add(
                name,
                floats(2, 8, 9, 4),
                ksize=[1, 3, 3, 1],
                strides=[1, 2, 2, 1],
                padding=padding,
                label=f"({padding})",
            )
            add(
                f"{name}3D",
                floats(2, 5, 6, 7, 2),
                ksize=[1, 2, 3, 2, 1],
                strides=[1, 2, 2, 1, 1],
                padding=padding,
                label=f"({padding})",
            )
        found.append((
            f"Conv2DBackpropInput({padding})",
            lambda a, k, p=padding: tf.nn.conv2d_transpose(a, k, [2, 8, 9, 3] if p == "SAME" else [2, 9, 11, 3], 2, p),
            [floats(2, 4, 5, 4), floats(3, 3, 3, 4)],
        ))  # fmt: skip
        add(
            "Dilation2D",
            floats(2, 8, 9, 4),
            floats(3, 3, 4),
            strides=[1, 1, 1, 1],
            rates=[1, 2, 2, 1],
            padding=padding,
            label=f"({padding})",
        )
        add("ExtractImagePatches", floats(2, 8, 9, 4), ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1],
            padding=padding, label=f"({padding})")  # fmt: skip
    found.append(("FusedBatchNormV3", lambda *a: tf.compat.v1.nn.fused_batch_norm(*a, is_training=False)[0],
                  [floats(2, 4, 5, 3), floats(3), floats(3), floats(3), positive(3)]))  # fmt: skip
    found.append(("FusedBatchNormV3(training)", lambda *a: tf.compat.v1.nn.fused_batch_norm(*a, is_training=True)[0],
                  [floats(2, 4, 5, 3), floats(3), floats(3)]))  # fmt: skip
    add("LRN", floats(2, 4, 5, 9), depth_radius=2, bias=1.5, alpha=0.3, beta=0.6)
    add("L2Loss", floats(3, 4))
    for name in ("Softmax", "LogSoftmax"):
        add(name, floats(3, 4))
    add("SoftmaxCrossEntropyWithLogits", floats(3, 4), positive(3, 4))
    add("SparseSoftmaxCrossEntropyWithLogits", floats(3, 4), whole(3, low=0, high=4))
    add("FakeQuantWithMinMaxArgs", floats(3, 4) * 5, min=-3.0, max=4.0)
    for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
        for corners, half in ((False, True), (True, False), (False, False)):
            add(
                name,
                floats(2, 5, 6, 3),
                size=[7, 4],
                align_corners=corners,
                half_pixel_centers=half,
                label=f"({corners}, {half})",
            )
    for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "triangle", "keyscubic", "mitchellcubic"):
        for antialias in (False, True):
            add("ScaleAndTranslate", floats(2, 9, 6, 3), size=[5, 8], scale=[0.6, 1.1], translation=[0.5, -1.0],
                kernel_type=kernel, antialias=antialias, label=f"({kernel}, {antialias})")  # fmt: skip
    add("ResizeArea", floats(2, 9, 6, 3), size=[4, 8])
    regions = np.float32([[0, 0, 0.5, 0.5], [0.1, 0.2, 0.9, 1.1]])
    add("CropAndResize", floats(2, 8, 7, 3), regions, whole(2, low=0, high=2),
        crop_size=[4, 3], extrapolation_value=0.5)  # fmt: skip
    add("NonMaxSuppressionV3", positive(6, 4), positive(6), max_output_size=4, iou_threshold=0.3, score_threshold=0.2)
    add("AdjustHue", positive(2, 3, 4, 3), delta=0.2)
    add("AdjustSaturation", positive(2, 3, 4, 3), scale=1.7)
    found.append(
        ("StridedSlice(run time)", lambda a, i: a[:, tf.reduce_max(i)], [floats(3, 4), whole(2, low=-4, high=4)])
    )
    # -------------------------------------------------------------------------------------------------------- matrices
    positive_definite = floats(2, 4, 4) @ floats(2, 4, 4).swapaxes(1, 2) + np.eye(4, dtype="float32")
    add("Cholesky", positive_definite)
    add("MatrixDeterminant", positive_definite)
    add("MatrixInverse", positive_definite, adjoint=False)
    add("MatrixSolve", floats(2, 4, 4) + 3 * np.eye(4, dtype="float32"), floats(2, 4, 3), adjoint=True)
    for lower, adjoint in ((True, False), (True, True), (False, False)):
        add("MatrixTriangularSolve", positive_definite, floats(2, 4, 3), lower=lower, adjoint=adjoint,
            label=f"({lower}, {adjoint})")  # fmt: skip
    add("RGBToHSV", positive(2, 3, 4, 3))
    add("HSVToRGB", positive(2, 3, 4, 3))
    found.append(("RFFT", lambda a: tf.abs(tf.signal.rfft(a)), [floats(3, 16)]))
    found.append(("IRFFT", lambda a: tf.signal.irfft(tf.signal.rfft(a)), [floats(3, 16)]))
    # --------------------------------------------------------------------------------------------------------- control
    found.append(("If", lambda a: tf.cond(tf.reduce_sum(a) > 0, lambda: a * 2, lambda: a - 1), [floats(3, 4)]))
    found.append(
        (
            "While",
            lambda a: tf.while_loop(lambda x: tf.reduce_sum(x) < 50.0, lambda x: (x * 2.0,), [a])[0],
            [positive(3)],
        )
    )
    found.append(
        (
            "While(known)",
            lambda a: tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), [0, a])[1],
            [positive(3)],
        )
    )
    found.append(("TensorList", lambda a: tf.map_fn(lambda row: row * 2 + 1, a), [floats(4, 3)]))
    return found


def _inputs(function: Any) -> list[str]:
    """The parameters of a raw operator in order; those without defaults are tensors."""
    return [name for name in inspect.signature(function).parameters if name != "name"]
