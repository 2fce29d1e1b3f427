"""Why references differ from each other, where somebody looked into it: patterns over "OPERATOR of TYPE"."""

from __future__ import annotations

import re

UNEXPLAINED = "unexplained"
SAMPLING = "(RoiAlign|Resize|Upsample|GridSample|DeformConv)"
#: What both references compute in the same way, and less exactly or with other edges than we do.
BY_BOTH = (
    r"(Layer|RMS|Group)Normalization of float64",
    r"Gelu of float64",
    r"Shrink of u?int64",
    r"Max(Roi)?Pool of \w+, not finite",
    r"Scatter\w* of \w+, not finite",
    rf"{SAMPLING} of \w+, not finite",
)
#: Where onnxruntime 1.31 and the evaluator of onnx 1.23 differ: a pattern of "OPERATOR of TYPE", and the reason.
DISAGREEMENTS = (
    (r"Max(Roi)?Pool of \w+, not finite", "references drop NaN, or not, by its position in the window; ours keeps it"),
    (rf"{SAMPLING} of \w+, not finite", "whether a neighbour of weight 0 that is not finite counts"),
    (r"PRelu of \w+, not finite", "the evaluator multiplies by the slope where it takes the element itself, too"),
    (r"LinearClassifier of \w+, not finite", "which class is the largest where a score is NaN"),
    (r"OneHot of \w+, not finite", "the evaluator multiplies both values by 0 and 1, and adds"),
    (r"Scatter\w* of \w+, not finite", "an engine or two drop NaN where the largest or smallest is kept"),
    (r"Shrink of u?int64", "float64 does not hold the ends of 64 bits; ours stops there, the references wrap"),
    (r"LRN of", "the evaluator normalizes as many channels as there are samples"),
    (r"GlobalMaxPool of", "the evaluator takes the maximum over two axes, whatever the rank"),
    (r"SoftmaxCrossEntropyLoss of \w+, not finite", "the evaluator takes log of softmax; inf as logit is NaN or not"),
    (r"(LogSoftmax|Softmax|Hardmax) of", "the evaluator takes the default for axis 0, and flattens nothing"),
    (r"BatchNormalization of", "the evaluator takes the statistics of the batch at opsets 9 to 13"),
    (r"(RNN|GRU|LSTM) of", "the evaluator leaves out clip, lengths, the layout and the reverse direction"),
    (r"LpNormalization of", "the evaluator sums signed elements for order 1, and takes the default for axis 0"),
    (r"StringSplit of", "an empty text has one part, as in Python; for onnxruntime it has none"),
    (r"StringNormalizer of", "the evaluator takes stop words and accents out of the middle of texts"),
    (r"(Loop|Scan) of", "the evaluator joins scanned outputs, and needs a condition"),
    (r"(Optional|OptionalGetElement) of", "the evaluator returns a list"),
    (r"Erf of float64", "the evaluator computes erf in float32"),
    (r"Gelu of float64", "constants and erf of the references are float32"),
    (r"(HardSigmoid|HardSwish|Selu|Celu|Elu|LeakyRelu) of float64", "the evaluator's constants are float64"),
    (r"(\w+Window) of", "the evaluator computes in float64, onnxruntime in float32"),
    (r"(GridSample|DeformConv|RoiAlign|Resize|AffineGrid) of float64", "a reference computes coordinates in float32"),
    (r"AffineGrid of", "the one coordinate along an axis is at -1 or at 0"),
    (r"(MaxPool|LpPool|AveragePool) of", "the evaluator takes ceil_mode and uneven pads otherwise"),
    (r"ConvTranspose of", "auto_pad and output_padding are put on different sides"),
    (r"(QLinearConv|ConvInteger) of", "the evaluator takes data of rank 3 for one sample, and rounds once more"),
    (r"QLinearMatMul of", "a result between two codes, which each engine rounds by its own product of scales"),
    (r"QuantizeLinear of", "the evaluator casts before it saturates"),
    (r"Bernoulli of", "onnxruntime draws with the opposite of the chance"),
    (r"Unique of", "the evaluator looks for single elements along an axis"),
    (r"Shape of", "the evaluator does not clamp an end before the first axis"),
    (r"MeanVarianceNormalization of", "a variance of zero is NaN for the evaluator, onnxruntime adds 1e-9"),
    (r"(ReduceMean|Mean) of u?int", "the evaluator computes the mean of integers in float64"),
    (r"ReduceLog(Sum|SumExp) of u?int", "onnxruntime adds exponentials, and takes logarithms, as integers"),
    (r"ReduceSumSquare of u?int", "onnxruntime stops at the ends of the type; ours and the evaluator wrap"),
    (r"ReduceL2 of u?int", "squares wrap around in the type of the elements, and a root beyond the type has no value"),
    (r"Gemm of u?int", "the evaluator multiplies by alpha as a float, which 64-bit products do not fit"),
    (r"(Layer|RMS|Group)Normalization of float64", "stage one is float32 by stash_type, which not all follow"),
    (r"of (b?float16)", "16-bit floats are rounded at different steps"),
)  # fmt: skip
#: Where ours agrees with one of the two, and why the other is off; ours may not differ from both there.
ONE_IS_RIGHT = (
    (r"RoiAlign of", "the evaluator takes half pixels at opsets 10 to 15 too, which have none"),
    (r"ai.onnx.ml.LinearRegressor of", "the evaluator returns NaN where there are no intercepts"),
    (r"Slice of", "an end of the largest integer and a negative step: onnxruntime takes an element that is not there"),
    (r"Gather of object", "onnxruntime leaves texts empty where whole blocks of them are gathered"),
    (r"Col2Im of", "onnxruntime puts columns of dilated windows along one axis elsewhere"),
    (r"Reduce(Max|Min) of \w+, not finite", "onnxruntime drops NaN, or not, by its position"),
    (r"Clip of \w+, not finite", "onnxruntime clips infinity to the largest number where there is no maximum"),
    (r"(Reduce(Sum|Prod|L1)|Einsum) of int", "onnxruntime stops at the ends of the type; ours and the evaluator wrap"),
    (r"Shrink of u?int32", "onnxruntime stops at the ends of the type"),
    (r"(Shrink|DFT|Attention) of float64", "onnxruntime computes in float32, or with its constants"),
    (r"(STFT|DFT) of float32", "onnxruntime's transforms round more than the evaluator's"),
    (r"InstanceNormalization of", "of one element: onnxruntime does not take its mean away first"),
    (r"MatMulInteger of", "of products over no terms onnxruntime leaves the memory as it was"),
    (r"Cast(Like)? of", "onnxruntime rounds to the nearest integer of four bits, ONNX cuts off"),
)  # fmt: skip


def cause_of_disagreement(where: str) -> str:
    """Why the references differ on an operator and type; "unexplained" where nobody looked yet."""
    return _reason(where, (*DISAGREEMENTS, *ONE_IS_RIGHT))


def _reason(where: str, table: tuple[tuple[str, str], ...]) -> str:
    found = (reason for name in _named(where) for pattern, reason in table if re.search(pattern, name))
    return next(found, UNEXPLAINED)


def _named(where: str) -> list[str]:
    """ "OPERATOR of TYPE" for the operator itself, and for those of its bodies: "If(Erf, Add) of float64"."""
    head, _, type_ = where.partition(" of ")
    outer, _, inner = head.partition("(")
    return [f"{name} of {type_}" for name in (outer, *filter(None, inner.rstrip(")").split(", ")))]


def is_known(where: str, agreeing: tuple[str, ...]) -> bool:
    """True if references that agree with each other, or one alone, are known to be wrong on an operator and type."""
    if len(agreeing) == 2:
        return any(re.search(pattern, name) for pattern in BY_BOTH for name in _named(where))
    return _reason(where, DISAGREEMENTS) != UNEXPLAINED
