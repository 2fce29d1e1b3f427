"""Operators of the host in JavaScript: the same results as in Python, of every operator that there is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.runtime.web.helpers import NODE, needs_node
from tests.runtime.web.host_replay import Call, in_javascript
from tilewright.errors import InputError
from tilewright.runtime import host_ops
from tilewright.runtime.web.host import HOST_FILES, host_operators
from tilewright.runtime.web.package import filled

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4), dtype=np.float32)
Y = np.float32([[1.5, -2, 0, 3.25]])
N = np.array([[3, -7, 0], [5, 2, -1]], np.int64)
HALF, BRAIN = X.astype(np.float16), X.astype(ml_dtypes.bfloat16)
IMAGE = RNG.standard_normal((1, 2, 5, 6), dtype=np.float32)
WORDS = np.array([["a", "b c"], ["", "  d e "]], object)
BOOL = np.array([True, False, True])


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


def shaped() -> list[Call]:
    """Operators that move elements."""
    return [
        *[("onnx.Reshape", attrs, [value, i64(*shape)]) for value, shape, attrs in [
            (X, (0, -1), {}), (X, (4, 3, 2), {}), (X[:0], (0, -1), {}), (X[:0], (0, 5), {"allowzero": 1}),
            (HALF, (24,), {}),
            (WORDS, (4,), {})]],
        ("onnx.Stretched", {"axes": [[-1], [-2]]}, [X[:, :, :1], X[:, :1]]),
        ("onnx.Expand", {}, [Y, i64(2, 3, 1)]),
        ("onnx.Tile", {}, [X, i64(1, 2, 3)]),
        *[("onnx.Slice", {}, [X, i64(*begin), i64(*end), i64(0, 2), i64(*step)]) for begin, end, step in [
            ((0, -1), (2, -9), (1, -1)), ((1, 3), (9, 0), (1, -2)), ((-1, -3), (99, 3), (1, 1)), ((1, 2), (0, 2),
            (1, 1))]],
        ("onnx.Slice", {"starts": [1], "ends": [3], "axes": [1]}, [X]),
        *[("onnx.Pad", {"mode": mode}, [X, i64(0, 1, -1, 1, 2, 3)]) for mode in ("constant", "reflect", "edge",
        "wrap")],
        ("onnx.Pad", {}, [N, i64(2, 1), np.array(7), i64(1)]),
        ("onnx.CenterCropPad", {"axes": [1, 2]}, [X, i64(2, 7)]),
        ("onnx.ConstantOfShape", {"value": float("-inf"), "value_dtype": "float32"}, [i64(2, 2)]),
        ("onnx.ConstantOfShape", {"value": 2**62 + 1, "value_dtype": "int64"}, [i64(2)]),
        *[("onnx.Range", {}, [np.array(v, dtype) for v in values]) for dtype, values in [
            ("int32", (1, 10, 3)), ("int64", (5, -6, -2)), ("float32", (0, 1, 0.1)), ("float64", (0, -1, 0.5))]],
        ("onnx.Squeeze", {}, [X[:, :1]]), ("onnx.Squeeze", {}, [X[:1, :1], i64(-2)]),
        ("onnx.Unsqueeze", {}, [X, i64(0, -1)]), ("onnx.Unsqueeze", {"axes": [1]}, [X]),
        ("onnx.Split", {"axis": -1, "outputs": 3}, [X]), ("onnx.Split", {"axis": 1, "outputs": 2}, [X, i64(1, 2)]),
        *[("onnx.Trilu", {"upper": upper}, [X, np.array(k)]) for upper in (0, 1) for k in (-1, 0, 2)],
        ("onnx.EyeLike", {"k": 1, "result_dtype": "float16"}, [N]),
        ("onnx.Size", {}, [X]), ("onnx.Shape", {"start": -2}, [X]), ("onnx.Shape", {"start": 0, "end": -1}, [X]),
        ("onnx.Identity", {}, [BRAIN]), ("onnx.Concat", {"axis": -2}, [X, X[:, :2]]),
        ("onnx.Concat", {"axis": 0}, [WORDS] * 2),
        ("onnx.Transpose", {}, [X]), ("onnx.Transpose", {"perm": [1, 0, 2]}, [X]),
        ("onnx.Flatten", {"axis": -1}, [X]), ("onnx.Flatten", {"axis": 0}, [X]),
        *[(f"onnx.{name}", {"blocksize": 2, "mode": mode}, [RNG.standard_normal((1, 4, 4, 2), dtype=np.float32)])
          for name in ("DepthToSpace", "SpaceToDepth") for mode in ("DCR", "CRD")],
        ("shape_of", {"dtype": "int32"}, [X]), ("vm.shape_of", {"dtype": ""}, [X]),
        ("check_shape", {"shape": [2, None, 4], "callee": "f", "argument": 0}, [X]),
        ("check_indices", {"axes": [1], "coordinates": False, "from_back": True, "label": "l"}, [i64(-3, 2), X]),
        ("dyn.reshape", {}, [X, i64(0, -1)]), ("dyn.broadcast_to", {}, [Y, i64(2, 4)]),
        ("dyn.expand_dims", {"num_newaxis": 2}, [X, np.array(-1)]), ("dyn.squeeze", {}, [X[:1], i64(0)]),
        ("dyn.full", {"dtype": ""}, [np.float32(3), i64(2)]), ("dyn.ones", {"dtype": "bool"}, [i64(2)]),
        ("dyn.zeros", {"dtype": "int64"}, [i64(2, 1)]), ("dyn.tile", {}, [X, i64(2)]),
        ("dyn.tile", {}, [Y, i64(2, 1, 1)]),
        ("dyn.strided_slice", {"slice_mode": "size"}, [X, i64(0, -2), i64(1, -1), i64(1, 1)]),
        ("dyn.strided_slice", {"slice_mode": "end"}, [X, i64(0, 2), i64(2, -9), i64(1, -1)]),
        ("dyn.nn.pad", {"pad_mode": "edge"}, [Y, i64(1, 0, 2, 1), np.float32(0)]),
        ("dyn.nn.pad", {"pad_mode": "constant"}, [Y, i64(1, 0, 2, 1), np.float32(5)]),
        ("vm.reshape_tensor", {}, [X, i64(6, 4)]),
    ]  # fmt: skip


def lists() -> list[Call]:
    """Operators on sequences and optionals; those on lists of loops are tested in programs."""
    two = [X, X + 1]
    return [
        ("onnx.SequenceConstruct", {}, two), ("onnx.SequenceEmpty", {}, []),
        ("onnx.SequenceAt", {}, [two, np.array(-1)]),
        ("onnx.SequenceInsert", {}, [two, Y, np.array(-1)]), ("onnx.SequenceInsert", {"given": [True, True, False]},
        [two, Y]),
        ("onnx.SequenceErase", {}, [two]), ("onnx.SequenceErase", {}, [two, np.array(0)]),
        ("onnx.SequenceLength", {}, [two]),
        ("onnx.SplitToSequence", {"axis": 2}, [X]), ("onnx.SplitToSequence", {"axis": 2, "keepdims": 0}, [X]),
        ("onnx.SplitToSequence", {"axis": 2}, [X, np.array(3)]), ("onnx.SplitToSequence", {"axis": 2}, [X, i64(1, 3)]),
        ("onnx.ConcatFromSequence", {"axis": 1}, [two]), ("onnx.ConcatFromSequence", {"axis": -1, "new_axis": 1},
        [two]),
        ("onnx.Optional", {}, [X]), ("onnx.Optional", {}, []), ("onnx.OptionalHasElement", {}, []),
        ("onnx.OptionalHasElement", {}, [X]), ("onnx.OptionalGetElement", {}, [X]), ("list.empty", {}, []),
    ]  # fmt: skip


def elements() -> list[Call]:
    """Arithmetic and reductions."""
    made: list[Call] = []
    for name in (
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "Less",
        "Greater",
        "LessOrEqual",
        "GreaterOrEqual",
        "Equal",
        "Mod",
    ):
        made += [
            (f"onnx.{name}", {"fmod": 0}, pair)
            for pair in ([N, N[:, ::-1]], [N.astype("int32"), np.int32([[2, -3, 4]])])
        ]
        made += (
            [(f"onnx.{name}", {"fmod": 1}, [X, Y])] if name == "Mod" else [(f"onnx.{name}", {}, [HALF, np.float16(Y)])]
        )
    made += [("onnx.Mul", {}, [np.int32([2**31 - 1]), np.int32([2**30 + 7])]), ("onnx.Equal", {}, [WORDS, WORDS[:1]])]
    made += [("onnx.Sum", {}, [X, X, Y]), ("onnx.Pow", {}, [np.abs(X), Y]), ("onnx.Pow", {}, [N, np.abs(N)])]
    for name in ("Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Exp", "Sin", "Cos", "Tan", "Tanh", "Relu", "Sigmoid"):
        made += [(f"onnx.{name}", {}, [value]) for value in (X * 3, np.float32([0.5, 1.5, -2.5]), BRAIN)]
    made += [(f"onnx.{name}", {}, [N]) for name in ("Neg", "Abs", "Sign", "Relu")]
    made += [(f"onnx.{name}", {}, [np.abs(X)]) for name in ("Sqrt", "Reciprocal", "Log")]
    made += [("onnx.IsNaN", {}, [np.float32([np.nan, 1])]), ("onnx.Not", {}, [BOOL])]
    made += [(f"onnx.{name}", {}, [BOOL, np.array([[True], [False]])]) for name in ("And", "Or", "Xor")]
    made += [("onnx.Clip", {}, [X, np.float32(-0.5), np.float32(0.5)]), ("onnx.Clip", {"min": 0.0}, [X])]
    made += [("onnx.Where", {}, [X > 0, X, np.float32(0)]), ("onnx.MatMul", {}, [X, X.transpose(0, 2, 1)])]
    made += [
        ("onnx.MatMul", {}, [X, Y[0]]),
        ("onnx.MatMul", {}, [N, N.T]),
        ("onnx.MatMul", {}, [HALF[0, 0], HALF[0, 0]]),
    ]
    reductions = ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
    for name in reductions:
        values = [np.abs(X), X.astype(np.float64) ** 2, np.abs(HALF), *([] if "Log" in name else [N])]
        made += [(f"onnx.Reduce{name}", {"keepdims": 0}, [value, i64(1)]) for value in values]
        made += [
            (f"onnx.Reduce{name}", {}, [np.abs(X)]),
            (f"onnx.Reduce{name}", {"noop_with_empty_axes": 1}, [np.abs(X)]),
        ]
        made += [(f"onnx.Reduce{name}", {}, [X[:0], i64(0)])] if name != "Mean" else []
    for name in ("CumSum", "CumProd"):
        flags = [(a, b) for a in (0, 1) for b in (0, 1)]
        made += [
            (f"onnx.{name}", {"exclusive": a, "reverse": b}, [value, np.array(1)]) for value in (X, N) for a, b in flags
        ]
    ties = np.float32([[1, 3, 3], [np.nan, 2, -1]])
    for name in ("ArgMax", "ArgMin"):
        made += [(f"onnx.{name}", {"axis": 1, "keepdims": last, "select_last_index": last}, [ties]) for last in (0, 1)]
    return made


def found() -> list[Call]:
    """Operators that find, pick and write elements."""
    again = np.float32([[2, 1], [0, 5], [2, 1], [0, 4]])
    boxes = RNG.random((2, 12, 4), dtype=np.float32)
    scores = RNG.random((2, 3, 12), dtype=np.float32)
    made: list[Call] = [("onnx.NonZero", {}, [value]) for value in (N, BOOL, np.float32(3), X > 0)]
    made += [("argwhere", {}, [N]), ("argwhere", {}, [X > 0])]
    made += [("onnx.Compress", {"axis": 1}, [X, BOOL]), ("onnx.Compress", {}, [X, np.tile(BOOL, 4)])]
    for order in (0, 1):
        made += [("onnx.Unique", {"sorted": order}, [again]), ("onnx.Unique", {"sorted": order, "axis": 0}, [again])]
        made += [("onnx.Unique", {"sorted": order, "axis": -1}, [again]), ("onnx.Unique", {"sorted": order}, [WORDS])]
        made += [("unique", {"sorted": order, "return_counts": order}, [again.reshape(-1)])]
    for largest in (0, 1):
        made += [
            ("onnx.TopK", {"axis": 1, "largest": largest}, [value, i64(2)])
            for value in (X, np.float32([[2, 2, np.nan, 1]]))
        ]
        made += [
            ("dyn.topk", {"axis": -1, "is_ascend": largest, "dtype": "int32", "ret_type": "both"}, [X, np.array(2)])
        ]
    made += [("dyn.topk", {"axis": 0, "is_ascend": 0, "dtype": "int64", "ret_type": "indices"}, [X, np.array(0)])]
    made += [("onnx.OneHot", {"axis": axis}, [i64(0, -1, 3, 7), np.array(4), np.float32([2, 5])]) for axis in (-1, 0)]
    made += [("dyn.one_hot", {"axis": -1, "dtype": "float32"}, [i64(0, -1), np.float32(1), np.float32(0), np.array(3)])]
    limits = [[np.array(3), np.float32(0.3)], [np.array(5), np.float32(0.5), np.float32(0.4)], []]
    made += [
        ("onnx.NonMaxSuppression", {"center_point_box": c}, [boxes, scores, *rest]) for rest in limits for c in (0, 1)
    ]
    made += [("onnx.Gather", {"axis": 1}, [X, i64(2, -1).reshape(1, 2)]), ("onnx.Gather", {}, [WORDS, np.array(1)])]
    made += [("onnx.ReverseSequence", {"batch_axis": 1, "time_axis": 2}, [X, i64(0, 2, 4)])]
    at = np.int64([[[0, -1, 1, 2]]])
    made += [("onnx.GatherElements", {"axis": 1}, [X, at]), ("onnx.GatherND", {}, [X, np.int64([[0, -1], [1, 0]])])]
    made += [("onnx.GatherND", {"batch_dims": 1}, [X, np.int64([[2], [0]])])]
    for reduction in ("none", "add", "mul", "max", "min"):
        for name in ("ScatterElements", "Scatter"):
            made += [(f"onnx.{name}", {"axis": 1, "reduction": reduction}, [X, at, X[:1, :1]])]
        made += [("onnx.ScatterND", {"reduction": reduction}, [N, np.int64([[0], [0]]), N])]
    return made


def signals() -> list[Call]:
    """Resampling, regions, transforms, random numbers of a seed."""
    made: list[Call] = []
    for mode in (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_half_pixel_for_nn",
    ):
        for kind in (
            {"mode": "nearest"},
            {"mode": "linear"},
            {"mode": "cubic", "exclude_outside": 1},
            {"mode": "linear", "antialias": 1},
        ):
            attrs = {"coordinate_transformation_mode": mode, "given": [True, False, True], **kind}
            made += [("onnx.Resize", attrs, [IMAGE, np.float32([1, 1, 0.6, 1.7])])]
    crop = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
        "given": [True, True, False, True],
    }
    made += [
        (
            "onnx.Resize",
            {**crop, "mode": "linear"},
            [IMAGE, np.float32([0, 0, 0.2, -0.3, 1, 1, 0.9, 1.2]), i64(1, 2, 4, 5)],
        )
    ]
    policy = {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger", "given": [True, False, False, True]}
    made += [
        ("onnx.Resize", {**policy, "nearest_mode": rounding}, [IMAGE, i64(7, 8)])
        for rounding in ("ceil", "round_prefer_ceil")
    ]
    made += [("onnx.Upsample", {"mode": "linear"}, [IMAGE, np.float32([1, 1, 2, 1.5])])]
    for corners in (0, 1):
        made += [
            ("onnx.AffineGrid", {"align_corners": corners}, [np.float32([[[1, 0.5, 0], [0.2, 1, 1]]]), i64(1, 1, 3, 4)])
        ]
    made += [
        ("onnx.MaxUnpool", {"kernel_shape": [2], "strides": [2]}, [X[:1, :1], np.int64([[[1, 2, 5, 7]]]), *rest])
        for rest in ([], [i64(1, 1, 9)])
    ]
    made += [
        (
            "onnx.Col2Im",
            {"pads": [0, 1, 0, 1], "dilations": [1, 2]},
            [RNG.random((1, 8, 10), dtype=np.float32), i64(3, 5), i64(2, 2)],
        )
    ]
    regions, batch = np.float32([[0, 0, 3, 4], [1.5, -2, 5, 4]]), i64(0, 0)
    made += [
        (
            "onnx.RoiAlign",
            {"mode": mode, "output_height": 2, "output_width": 3, "sampling_ratio": ratio},
            [IMAGE, regions, batch],
        )
        for mode in ("avg", "max")
        for ratio in (0, 2)
    ]
    made += [
        ("onnx.Det", {}, [RNG.standard_normal((2, 4, 4), dtype=np.float32)]),
        ("onnx.Det", {}, [np.zeros((3, 3), np.float32)]),
    ]
    pairs = RNG.standard_normal((2, 12, 2), dtype=np.float32)
    made += [("onnx.DFT", {}, [pairs]), ("onnx.DFT", {"inverse": 1}, [pairs, np.array(7), np.array(1)])]
    made += [
        ("onnx.DFT", {"onesided": 1}, [pairs[..., :1]]),
        ("onnx.DFT", {"onesided": 1, "inverse": 1}, [pairs[:, :6]]),
    ]
    made += [("onnx.STFT", {}, [pairs[..., :1], np.array(3), np.float32([0.5, 1, 1, 0.5, 0])])]
    made += [("onnx.STFT", {"onesided": 0, "given": [True, True, False, True]}, [pairs, np.array(3), np.array(4)])]
    mel = [np.array(8), np.array(32), np.array(16000), np.float32(20), np.float32(7000)]
    made += [("onnx.MelWeightMatrix", {"result_dtype": "float32"}, mel)]
    made += [(f"onnx.{name}Window", {"periodic": periodic, "result_dtype": "float32"}, [np.array(7)])
             for name in ("Hann", "Hamming", "Blackman") for periodic in (0, 1)]  # fmt: skip
    made += [("onnx.Dropout", {"seed": 5}, [X, np.float32(0.4), np.array(training)]) for training in (True, False)]
    made += [("onnx.RandomUniform", {"seed": 7.0, "low": -1.0, "shape": [700], "result_dtype": "float32"}, [])]
    made += [("onnx.RandomUniformLike", {"seed": 7.0, "result_dtype": "float64"}, [X])]
    return made


def texts() -> list[Call]:
    """Operators on texts and tables."""
    made: list[Call] = [("onnx.StringConcat", {}, [WORDS, WORDS[:1]])]
    made += [
        ("onnx.StringSplit", attrs, [WORDS])
        for attrs in ({}, {"delimiter": " "}, {"maxsplit": 0}, {"delimiter": " ", "maxsplit": 1})
    ]
    stops = {"stopwords": ["A"], "case_change_action": "UPPER"}
    made += [("onnx.StringNormalizer", {**stops, "is_case_sensitive": flag}, [WORDS[0]]) for flag in (0, 1)]
    made += [("onnx.StringNormalizer", {"stopwords": ["a", "b c"]}, [WORDS[:1]])]
    numbers = np.float32([0, -0.0, 1, 0.1, 1e-7, 123456.79, 3e38, np.inf, np.nan, 1.17e-38])
    for name in ("Cast", "CastLike"):
        values = [numbers, numbers.astype(np.float64), N, BOOL, np.float16([0.1, 65504])]
        made += [(f"onnx.{name}", {"result_dtype": "string"}, [value]) for value in values]
        made += [(f"onnx.{name}", {"result_dtype": "float32"}, [np.array(["1", " -2.5e3", "inf", ".5"], object)])]
        made += [(f"onnx.{name}", {"result_dtype": "int64"}, [np.array(["-9007199254740993", "7"], object)])]
        made += [(f"onnx.{name}", {"result_dtype": "int32"}, [np.float32([1.7, -1.7])])]
    table = {"keys": [1.5, float("nan"), 2.0], "values": ["x", "y", "z"], "default": "?", "result_dtype": "string"}
    made += [("onnx.LabelEncoder", table, [np.float32([2, np.nan, 9, 1.5])])]
    made += [
        ("onnx.LabelEncoder", {"keys": ["a", ""], "values": [4, 5], "default": -1, "result_dtype": "int64"}, [WORDS])
    ]
    pool = {
        "ngram_counts": [0, 2],
        "ngram_indexes": [1, 0, 2, 3],
        "pool_int64s": [2, 3, 5, 4, 5, 6],
        "max_skip_count": 1,
    }
    for mode in ("TF", "IDF", "TFIDF"):
        attrs = {**pool, "mode": mode, "min_gram_length": 1, "max_gram_length": 2, "weights": [0.5, 2.0, 3.0, 4.0]}
        made += [
            ("onnx.TfIdfVectorizer", attrs, [value])
            for value in (i64(2, 3, 5, 4), np.int64([[2, 5, 4, 5], [3, 3, 3, 6]]))
        ]
    made += [("onnx.ml.Label", {"labels": labels}, [i64(1, 0, -1)]) for labels in (["a", "b", "c"], [7, 8, 9])]
    made += [("onnx.ml.OneHotEncoder", {"categories": ["a", ""]}, [WORDS])]
    return made


CASES = [*shaped(), *lists(), *elements(), *found(), *signals(), *texts()]
#: Operators of the host whose values are no tensors, or that end the model.
ELSEWHERE = {"list.push", "list.stack", "list.to_sequence", "onnx.Fail"}


def in_python(call: Call) -> Any:
    name, attrs, values = call
    with np.errstate(all="ignore"):
        return host_ops.find(name, attrs)(*values)


def agree(got: Any, wanted: Any) -> bool:
    if wanted is None or isinstance(wanted, list | tuple):
        return type(got) is type(wanted) and (
            wanted is None or (len(got) == len(wanted) and all(map(agree, got, wanted)))
        )
    wanted = np.asarray(wanted)
    if not isinstance(got, np.ndarray) or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    if wanted.dtype == object or wanted.dtype.kind in "iu":
        return bool((got == wanted).all())
    near = 1e-2 if wanted.dtype.itemsize == 2 else 1e-5
    return np.allclose(got.astype(np.float64), wanted.astype(np.float64), near, 1e-6, equal_nan=True)


@needs_node
def test_operators_in_javascript_return_what_those_in_python_do(tmp_path: Path) -> None:
    results = in_javascript(CASES, tmp_path)
    assert len(results) == len(CASES)
    wrong = []
    for call, got in zip(CASES, results, strict=True):
        wanted = in_python(call)
        if not agree(got, wanted):
            wrong.append(f"{call[0]} {call[1]} of {call[2]}: {got!r}, not {wanted!r}")
    assert not wrong, "\n".join(wrong)


def test_every_operator_has_a_case() -> None:
    tested = {name for name, _, _ in CASES}
    assert host_operators() - tested == ELSEWHERE
    assert tested <= host_operators() <= set(host_ops.HOST_OPS)


REFUSED: list[tuple[Call, str]] = [
    (("onnx.Reshape", {}, [X, i64(5, 5)]), "does not reshape to"),
    (("onnx.Expand", {}, [X, i64(5)]), "do not broadcast"),
    (("onnx.Gather", {}, [X, i64(2)]), "an index is out of range for an axis of size 2"),
    (("onnx.Split", {"outputs": 2}, [X, i64(1, 2)]), "2 parts of the sizes"),
    (("onnx.TopK", {}, [X, i64(5)]), "cannot take 5 of 4 elements"),
    (("onnx.SequenceAt", {}, [[X], np.array(3)]), "position 3 is out of range for a sequence of 1 elements"),
    (("onnx.Range", {}, [np.array(0), np.array(1), np.array(0)]), "steps of 0"),
    (("onnx.Cast", {"result_dtype": "int64"}, [WORDS]), "a text is not a number"),
    (("onnx.OptionalGetElement", {}, []), "empty optional"),
    (("onnx.Fail", {"message": "no such branch"}, []), "cannot run on them: no such branch"),
    (("check_shape", {"shape": [3, None, 4], "callee": "f", "argument": 0}, [X]), "where it declares [3, ?, 4]"),
    (("check_indices", {"axes": [0], "coordinates": False, "from_back": False, "label": "Gather 'g'"}, [i64(0, -1), X]),
     "Gather 'g': the index -1"),
    (("onnx.STFT", {}, [X, np.array(1), Y[0]]), "STFT (node node) cannot run on float32[2, 3, 4], int64[], "),
]  # fmt: skip


@needs_node
def test_values_that_do_not_fit_are_errors_that_say_so(tmp_path: Path) -> None:
    for (call, words), got in zip(REFUSED, in_javascript([call for call, _ in REFUSED], tmp_path), strict=True):
        assert str(got).startswith("TilewrightError: ") and words in got, (call, got)
        with pytest.raises(InputError):
            in_python(call)


@needs_node
@pytest.mark.parametrize("others", [["wasm.mjs", "workers.mjs"], ["gpu_sizes.mjs", "gpu.mjs"]], ids=["wasm", "webgpu"])
def test_the_files_are_one_module_with_either_runtime(others: list[str], tmp_path: Path) -> None:
    (tmp_path / "all.mjs").write_text(filled(["files.mjs", *HOST_FILES, *others], {"VARIANTS": "[]"}))
    done = subprocess.run([NODE or "", "--check", "all.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
