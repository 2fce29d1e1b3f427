"""Operators on text: hashes with published or recorded values, tables, tokens; compiled and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import InputError
from tilewright.relay import interpret, op, var
from tilewright.relay.ir.expr import Constant, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op import text

WORDS = np.array([["ham", "Eggs & ham!"], ["", "a-b\tHAM ham"]], object)


def results(convert: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of a function of text, interpreted; compiled they must be the same."""
    params = [
        var(f"x{position}", TensorType(array.shape, "string" if array.dtype == object else array.dtype))
        for position, array in enumerate(arrays)
    ]
    mod = IRModule.from_expr(Function(params, convert(*params)))
    feed = {f"x{position}": array for position, array in enumerate(arrays)}
    found = interpret(mod, feed)
    found = [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]
    for ours, again in zip(found, tw.compile(mod, cache=False).run(feed)):
        assert np.asarray(again).tolist() == ours.tolist()
    return found


def test_tables_with_a_default() -> None:
    (found,) = results(lambda x: text.look_up(x, ["ham", ""], [3, 4], -1), WORDS)
    assert found.tolist() == [[3, -1], [4, -1]]
    (found,) = results(lambda x: text.look_up(x, [1, 2], ["one", "two"], "?", "string"), np.array([2, 7]))
    assert found.tolist() == ["two", "?"]


def test_what_a_table_lacks_without_a_default() -> None:
    with pytest.raises(InputError, match="'Eggs & ham!' is not in the model's table of 1 entries"):
        results(lambda x: text.look_up(x, ["ham"], [3], None), WORDS)


def test_tokens_are_split_lowered_and_joined() -> None:
    column = WORDS.reshape(-1)
    (found,) = results(lambda x: text.tokens(x, lower=True, strip=True, split="whitespace", ngrams=[2, 1]), column)
    assert found.tolist() == [
        ["ham", "", "", "", ""],
        ["eggs ham", "eggs", "ham", "", ""],
        ["", "", "", "", ""],
        ["ab ham", "ham ham", "ab", "ham", "ham"],
    ]
    (found,) = results(lambda x: text.tokens(x, split="character", length=2), column)
    assert found.tolist() == [["h", "a"], ["E", "g"], ["", ""], ["a", "-"]]


def test_bytes_are_text_and_numbers_are_their_decimals() -> None:
    (found,) = results(lambda x: text.text_hash(x, 1000), np.array([b"12", "12"], object))
    (numbers,) = results(lambda x: text.text_hash(x, 1000), np.array([12, 12]))
    assert found.tolist() == numbers.tolist()


def test_results_go_on_to_kernels() -> None:
    (found,) = results(lambda x: op.add(text.look_up(x, ["ham"], [1], 0), Constant(np.int64(1))), WORDS)
    assert found.tolist() == [[2, 1], [1, 1]]
