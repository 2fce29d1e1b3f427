"""Verdict on a case: ours beside the references, within the distance that rounding may put between right answers.

Elements are compared with a fixed bound first. Where one is out of it, the graph is evaluated again several times with
the result of each inexact node moved by a few units in the last place: what that does to an element is how far right
answers may lie apart, and an element that it turns into another number of another kind (a NaN, another integer) says
nothing. So a difference counts only where the graph does not make it of rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from bench.fuzz import elementwise
from bench.fuzz.draft import reads
from bench.fuzz.references import ReferenceError_, evaluate_nodes
from bench.fuzz.values import Array, element_of, is_float

#: Relative bounds by width of the mantissa; absolute ones are these times a share of the largest finite element: of
#: 16-bit floats, which are rounded between the steps of a node, a half, of others a hundredth.
_BOUNDS = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}
#: Operators whose results are the same however they are computed: they move elements or compare them.
EXACT = frozenset([
    "Abs", "And", "ArgMax", "ArgMin", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
    "Cast", "CastLike", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat", "ConcatFromSequence", "Constant",
    "ConstantOfShape", "DepthToSpace", "Dropout", "Equal", "Expand", "EyeLike", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Hardmax", "Identity", "IsInf", "IsNaN", "Less",
    "LessOrEqual", "Max", "MaxPool", "GlobalMaxPool", "MaxUnpool", "Min", "Neg", "NonMaxSuppression", "NonZero",
    "Not", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Or", "Pad", "Range", "ReduceMax",
    "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Round", "ScatterND", "ScatterElements", "Scatter",
    "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "Shape",
    "Sign", "Size", "Slice", "SpaceToDepth", "Split", "SplitToSequence", "Squeeze", "TensorScatter",
    "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where", "Xor",
])  # fmt: skip
#: Operators that are not exact and add up nothing: what overflows there does so in any order.
STEPWISE = frozenset([*elementwise.UNARY, *elementwise.BINARY, "Div", "Mod", "Pow"])
#: Operators whose first stage is float32 of float64 too, by the attribute `stash_type`.
STASHED = frozenset(["LayerNormalization", "RMSNormalization", "GroupNormalization"])
#: Operators whose float32 is exact within 1e-6 of the larger of the result and 1 (docs/numerics.md), or of which the
#: one reference is: onnxruntime's logistic function, which the fused products may end with, is 0 below -20.
VANISHING = frozenset(["BiasGelu", "FastGelu", "FusedConv", "FusedGemm", "Gelu", "QuickGelu", "Swish"])
#: Operators that compute positions in float32, which a size multiplies: the share of the largest element, per unit.
PLACED = frozenset(["DeformConv", "GridSample", "Resize", "RoiAlign", "Upsample"])
POSITION_SHARE = 8.0
RUNS = 6


def is_plain_float(array: Array) -> bool:
    """True if an array has floats in which sums are computed."""
    return str(array.dtype) in _BOUNDS


def wide(array: Array) -> Array:
    """Floats as float64, which holds them exactly."""
    return array.astype(np.float64)


def differences(ours: Any, theirs: Any, spread: Array | None = None) -> Array | str:
    """Mask of the elements that differ, or in words why the results cannot be compared; `spread` widens the bound."""
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return "another length of the sequence"
        found = [differences(a, b) for a, b in zip(ours, theirs)]
        return next((f for f in found if isinstance(f, str)), np.array([np.any(f) for f in found], bool))
    if not isinstance(ours, np.ndarray):
        return f"a {type(ours).__name__} where an array is expected"
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    if element_of(ours) != element_of(theirs):
        return f"type {ours.dtype}, not {theirs.dtype}"
    if not is_float(element_of(ours)):
        return np.asarray(ours != theirs)
    first, second = wide(ours), wide(theirs)
    with np.errstate(all="ignore"):
        bound = _BOUNDS.get(str(ours.dtype), 0.0)
        finite = second[np.isfinite(second)]
        largest = min(np.abs(finite).max(initial=0.0), 1e30)
        least = float(ml_dtypes.finfo(ours.dtype).tiny) if bound else 0.0
        share = 0.5 if ours.dtype.itemsize == 2 else 0.01
        allowed = bound * (np.abs(second) + share * largest) + least
        near = np.abs(first - second) <= (allowed if spread is None else np.maximum(allowed, 8 * spread))
        near = near & np.isfinite(second)  # within the bound of what is infinite everything would be
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        return ~(near | same)


def differs(ours: Any, theirs: Any) -> bool:
    """True if two results are not the same within the fixed bound."""
    found = differences(ours, theirs)
    return isinstance(found, str) or bool(found.any())


def tainted(model: onnx.ModelProto, undefined: frozenset[str]) -> set[str]:
    """The values that depend on undefined ones, these included."""
    found = set(undefined)
    for node in model.graph.node:
        if reads(node) & found:
            found |= set(node.output)
    return found - {""}


def moved_runs(model: onnx.ModelProto, feeds: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """The values of the graph as they are, and with inexact results moved by a few units in the last place."""
    rng = np.random.default_rng(seed)

    def change(node: Any, inputs: list[Any], results: list[Any]) -> list[Any]:
        return moved_results(rng, node.op_type, inputs, results)

    def before(node: Any, inputs: list[Any]) -> list[Any]:
        return moved_inputs(rng, node.op_type, inputs)

    return [evaluate_nodes(model, feeds), *(evaluate_nodes(model, feeds, change, before) for _ in range(RUNS))]


def moved_inputs(rng: np.random.Generator, operator: str, inputs: list[Any]) -> list[Any]:
    """The inputs of a node, moved where the node is not exact."""
    return inputs if operator in EXACT else [moved(rng, value, 0.0) for value in inputs]


def moved_results(rng: np.random.Generator, operator: str, inputs: list[Any], results: list[Any]) -> list[Any]:
    """The results of a node, moved where it is not exact; a sum that overflows on the way does so by its order."""
    if operator in EXACT:
        return results
    share = POSITION_SHARE if operator in PLACED else 0.1
    results = [moved(rng, value, share, np.float32 if operator in STASHED | PLACED else None) for value in results]
    if operator in VANISHING:
        results = [_moved_by(rng, value, 1e-6) for value in results]
    if operator in STEPWISE or not any(_is_huge(value) for value in inputs):
        return [_kept_wide(rng, inputs, value) for value in results]
    return [_overflowed(rng, value) for value in results]


def _kept_wide(rng: np.random.Generator, inputs: list[Any], value: Any) -> Any:
    """16-bit floats in which each that overflowed may be the largest number: until it is rounded it is finite."""
    arrays = [array for array in inputs if isinstance(array, np.ndarray) and is_plain_float(array)]
    if not isinstance(value, np.ndarray) or not is_plain_float(value) or value.dtype.itemsize > 2 or not arrays:
        return value
    if any(array.ndim and array.shape != value.shape for array in arrays):  # which elements gave which is not known
        return value
    finite = np.all([np.broadcast_to(np.isfinite(wide(array)), value.shape) for array in arrays], axis=0)
    overflowed = finite & np.isinf(wide(value)) & rng.choice([False, True], value.shape)
    largest = np.copysign(float(ml_dtypes.finfo(value.dtype).max), wide(value)).astype(value.dtype)
    return np.where(overflowed, largest, value)


def _moved_by(rng: np.random.Generator, value: Any, step: float) -> Any:
    """An array of float32, each element moved by up to `step`; others as they are."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        return value
    return value + rng.uniform(-step, step, value.shape).astype(np.float32)


def _is_huge(value: Any) -> bool:
    """True if an array has a number so large that products of such overflow."""
    if not isinstance(value, np.ndarray) or not is_plain_float(value):
        return False
    exact = wide(value)
    with np.errstate(all="ignore"):
        return bool((np.isfinite(exact) & (np.abs(exact) > float(ml_dtypes.finfo(value.dtype).max) ** 0.45)).any())


def _overflowed(rng: np.random.Generator, value: Any) -> Any:
    """An array in which each element that is not finite may be any other such, or the largest number."""
    if not isinstance(value, np.ndarray) or not is_plain_float(value):
        return value
    others = rng.choice([np.nan, np.inf, -np.inf, float(ml_dtypes.finfo(value.dtype).max)], value.shape)
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(wide(value)), value, others.astype(value.dtype))


def moved(rng: np.random.Generator, value: Any, share: float = 0.1, of: Any = None) -> Any:
    """An array of floats, each moved by up to four units in the last place, and by a share of those of the largest.

    `of`: the type whose units are meant, where it is narrower than that of the array.
    """
    if isinstance(value, list):
        return [moved(rng, item, share, of) for item in value]
    if not isinstance(value, np.ndarray) or not is_plain_float(value) or not value.size:
        return value
    step = 4 * float(max(ml_dtypes.finfo(kind).eps for kind in (value.dtype, of or value.dtype)))
    with np.errstate(all="ignore"):
        exact = wide(value)
        largest = min(np.abs(exact[np.isfinite(exact)]).max(initial=0.0), 1e30)
        noise = rng.uniform(-step, step, exact.shape)
        result = exact * (1 + noise) + share * noise * largest * rng.choice([0, 1], exact.shape)
        return np.where(np.isfinite(exact), result, exact).astype(value.dtype)


def unsteady(theirs: Any, runs: Sequence[Any]) -> tuple[Array, Array | None] | None:
    """(which elements say nothing, how far the others move) when a graph is evaluated with other rounding.

    None where sizes move. The first of the `runs` is the one that nothing was moved in.
    """
    base = runs[0]
    if any(np.shape(run) != np.shape(base) for run in (*runs, theirs)):
        return None
    if not is_plain_float(base):
        return np.any([np.asarray(run != base) for run in runs], axis=0), None
    exact, others = wide(base), [wide(run) for run in runs[1:]]
    with np.errstate(all="ignore"):
        kind = np.any([np.isnan(o) != np.isnan(exact) for o in others], axis=0)
        kind |= np.any([(np.isinf(o) | np.isinf(exact)) & (o != exact) & ~np.isnan(exact) for o in others], axis=0)
        spread = np.max([np.where(np.isfinite(o - exact), np.abs(o - exact), 0) for o in others], axis=0)
    return kind, spread


def stands(model: onnx.ModelProto, feeds: Mapping[str, Any], seed: int, name: str, ours: Any, theirs: Any) -> str:
    """The defect of `ours` beside `theirs`, the rounding of the graph allowed for; empty where nothing is."""
    try:
        runs = [run[name] for run in moved_runs(model, feeds, seed)]
    except ReferenceError_:
        runs = []
    return verdict(runs, ours, theirs)


def verdict(runs: Sequence[Any], ours: Any, theirs: Any) -> str:
    """The defect of `ours` beside `theirs`, given what other rounding makes of the value; empty where nothing is.

    The first of the `runs` is the one in which nothing was moved; there may be none.
    """
    if isinstance(theirs, list):
        if not isinstance(ours, list) or {len(ours), *map(len, runs)} != {len(theirs)}:
            return "" if len(set(map(len, runs))) > 1 else described(ours, theirs, differences(ours, theirs))
        faults = ((i, verdict([run[i] for run in runs], ours[i], item)) for i, item in enumerate(theirs))
        return next((f"item {i} of the sequence: {fault}" for i, fault in faults if fault), "")
    found = unsteady(theirs, runs) if runs else None
    if found is None:  # nothing was moved, or sizes are others by that
        return "" if len({np.shape(run) for run in runs}) > 1 else described(ours, theirs, differences(ours, theirs))
    silent, spread = found
    if not isinstance(ours, np.ndarray) or ours.shape != theirs.shape:
        return described(ours, theirs, differences(ours, theirs))
    if spread is not None:  # a number that is all rounding may be no number
        silent = silent | (~np.isfinite(wide(ours)) & (spread >= np.abs(wide(theirs))))
    differing = differences(ours, theirs, spread)
    if isinstance(differing, str):
        return differing
    differing = differing & ~silent
    return described(ours, theirs, differing) if differing.any() else ""


def described(ours: Any, theirs: Any, differing: Array | str) -> str:
    """A difference in words."""
    if isinstance(differing, str):
        return differing
    if isinstance(theirs, list):
        return f"items {np.flatnonzero(differing).tolist()} of the sequence"
    where = tuple(int(i[0]) for i in np.nonzero(differing)) if differing.ndim else ()
    return (
        f"{int(differing.sum())} of {differing.size} elements, at {list(where)} {ours[where]!r} for {theirs[where]!r}"
    )
