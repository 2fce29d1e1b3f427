"""Strings, sequences and optional values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import FLOATS, INTEGERS, draw_array

_ITEMS = (T.FLOAT, T.INT64, T.BOOL, T.FLOAT16, T.DOUBLE, T.INT32)


def sequence(draw: Draft, fits: Callable[[Value], bool] = lambda value: True) -> Value:
    """A sequence of the graph that fits, or one of new tensors."""
    found = [v for v in draw.values if v.kind == "sequence" and v.element and fits(v)]
    if found and draw.chance(0.7):
        return draw.choice(found)
    element = draw.choice(_ITEMS)
    shape = draw.shape(draw.integer(1, 2))
    items = [draw.operand([element], shape=shape) for _ in range(draw.integer(1, 3))]
    made = draw.emit("SequenceConstruct", items)[0]
    if not fits(made):
        raise Rejected("no sequence fits")
    return made


def construct(draw: Draft, operator: str) -> None:
    """SequenceConstruct of tensors of one type and any shapes."""
    element = draw.choice(_ITEMS)
    draw.emit(operator, [draw.operand([element]) for _ in range(draw.integer(1, 3))])


def empty(draw: Draft, operator: str) -> None:
    """SequenceEmpty, and what is put into it."""
    element = draw.choice(_ITEMS)
    made = draw.emit(operator, [], dtype=element)[0]
    draw.emit("SequenceInsert", [made, draw.operand([element])])


def _position(draw: Draft, value: Value) -> Value:
    """A position in a sequence; the one behind its end is left out, which the evaluator takes for the first."""
    length = len(value.contents)
    return draw.known(np.array(draw.integer(-length, length - 1), draw.choice([np.int32, np.int64])), 0.6)


def change(draw: Draft, operator: str) -> None:
    """SequenceInsert, SequenceErase, SequenceAt, at a position or at the end; SequenceLength."""
    if operator == "SequenceLength":
        draw.emit(operator, [sequence(draw)])
        return
    value = sequence(draw, lambda v: len(v.contents) > 0)
    position = _position(draw, value)
    if operator == "SequenceInsert":
        item = draw.operand([value.element])
        draw.emit(operator, [value, item, position if draw.chance(0.7) else None])
    elif operator == "SequenceErase":
        draw.emit(operator, [value, position if draw.chance(0.7) else None])
    else:
        draw.emit(operator, [value, position])


def join(draw: Draft, operator: str) -> None:
    """ConcatFromSequence along an axis of the items or a new one."""
    value = sequence(draw, lambda v: len({item.shape for item in v.contents}) == 1 and v.contents[0].ndim > 0)
    new = draw.integer(0, 1)
    rank = value.contents[0].ndim
    draw.emit(operator, [value], axis=draw.integer(-rank - new, rank - 1 + new), new_axis=new)


def cut(draw: Draft, operator: str) -> None:
    """SplitToSequence into ones, into equal parts or into given ones."""
    data = draw.operand(_ITEMS, fits=lambda v: v.rank > 0 and 0 not in v.shape)
    axis = draw.axis(data.rank)
    size = data.shape[axis]
    how = draw.choice(["none", "scalar", "vector"])
    if how == "none":
        draw.emit(operator, [data], axis=axis, keepdims=draw.integer(0, 1))
        return
    first = draw.integer(1, size)
    parts = np.array(first if how == "scalar" else [first, size - first] if first < size else [size], np.int64)
    draw.emit(operator, [data, draw.known(parts)], axis=axis)


def optional(draw: Draft, operator: str) -> None:
    """Optional of a tensor, and what asks it."""
    data = draw.operand((*FLOATS[:3], *INTEGERS, T.BOOL))
    made = draw.emit("Optional", [data])[0]
    if operator != "Optional":
        draw.emit(operator, [made])


def strings(draw: Draft, operator: str) -> None:
    """StringConcat, StringSplit, StringNormalizer, RegexFullMatch."""
    if operator == "StringConcat":
        left = draw.operand([T.STRING])
        draw.emit(operator, [left, draw.partner(left)])
    elif operator == "StringSplit":
        delimiter = draw.choice([None, ",", " "])
        draw.emit(operator, [draw.operand([T.STRING])], 2, delimiter=delimiter, maxsplit=draw.choice([None, 1, 2]))
    elif operator == "RegexFullMatch":
        draw.emit(operator, [draw.operand([T.STRING])], pattern=draw.choice(["a.*", "[0-9]+", "", ".*b", "-?[0-9]+"]))
    else:
        action = draw.choice([None, "LOWER", "UPPER", "NONE"])
        data = draw.operand([T.STRING], rank=1, fits=lambda v: v.array.size > 0)
        words = draw.choice([None, ["a", "the"]])
        draw.emit(operator, [data], case_change_action=action, is_case_sensitive=1, stopwords=words)


def tf_idf(draw: Draft, operator: str) -> None:
    """TfIdfVectorizer of words that are numbers."""
    data = draw.known(draw_array(draw.rng, T.INT64, (draw.integer(3, 8),), "positive"), 0.3)
    draw.emit(
        operator,
        [data],
        mode=draw.choice(["TF", "IDF", "TFIDF"]),
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=draw.integer(0, 1),
        ngram_counts=[0, 3],
        ngram_indexes=[0, 1, 2, 3, 4],
        pool_int64s=[1, 2, 3, 1, 2, 2, 3],
        weights=[0.5, 1.0, 2.0, 1.5, 0.25] if draw.chance(0.5) else None,
    )


def sequence_map(draw: Draft, operator: str) -> None:
    """SequenceMap of a body of one operator over the items."""
    value = sequence(draw, lambda v: len(v.contents) > 0)
    if value.element not in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT32, T.INT64):
        raise Rejected("the body computes")
    item = helper.make_tensor_type_proto(value.element, None)
    names = [draw.name() for _ in range(2)]
    body = helper.make_graph(
        [helper.make_node(draw.choice(["Neg", "Abs", "Identity"]), [names[0]], [names[1]])],
        "body",
        [helper.make_value_info(names[0], item)],
        [helper.make_value_info(names[1], item)],
    )
    draw.emit(operator, [value], body=body)


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **dict.fromkeys(("SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength"), change),
    **dict.fromkeys(("Optional", "OptionalHasElement", "OptionalGetElement"), optional),
    **dict.fromkeys(("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch"), strings),
    "SequenceConstruct": construct, "SequenceEmpty": empty, "ConcatFromSequence": join, "SplitToSequence": cut,
    "TfIdfVectorizer": tf_idf, "SequenceMap": sequence_map,
}  # fmt: skip
