"""Hash tables and tensors of text beside LiteRT's interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import Graph, Op, T, build, opened, outputs_of
from tilewright.errors import ModelError
from tilewright.frontend.tflite import from_tflite

WORDS, NUMBERS = ["one", "", "dreißig"], [1, -7, 1 << 40]


def table_model(keys: T, values: T, asked: T, default: T) -> bytes:
    """A model that fills a table before its first run, finds in it, and says how large it is."""
    codes = {"string": 5, "int64": 4}
    options = {"tableId": 3, "keyDtype": codes[keys.dtype], "valueDtype": codes[values.dtype]}
    handle = ("HashtableOptions", options)
    main = Graph(
        [asked, T((1,), "RESOURCE"), default, T(asked.shape, values.dtype), T((1,), "int64")], [0], [3, 4],
        [
            Op("CALL_ONCE", [], [], ("CallOnceOptions", {"initSubgraphIndex": 1})),
            Op("HASHTABLE", [], [1], handle),
            Op("HASHTABLE_FIND", [1, 0, 2], [3], ("HashtableFindOptions", {})),
            Op("HASHTABLE_SIZE", [1], [4], ("HashtableSizeOptions", {})),
        ],
    )  # fmt: skip
    first = Graph(
        [T((1,), "RESOURCE"), keys, values], [], [],
        [Op("HASHTABLE", [], [0], handle), Op("HASHTABLE_IMPORT", [0, 1, 2], [], ("HashtableImportOptions", {}))],
    )  # fmt: skip
    return build(main, first)


def plain(values: Any) -> list[Any]:
    """Elements, text as `str`."""
    return [one.decode() if isinstance(one, bytes) else one for one in np.asarray(values).reshape(-1).tolist()]


@pytest.mark.parametrize("to_text", [False, True])
def test_tables_in_both_directions_agree_with_litert(to_text: bool) -> None:
    words, numbers = T((3,), "string", WORDS), T((3,), "int64", NUMBERS)
    if to_text:
        model = table_model(numbers, words, T((4,), "int64"), T((1,), "string", ["?"]))
        asked = np.array([1 << 40, 2, 1, -7], np.int64)
    else:
        model = table_model(words, numbers, T((4,), "string"), T((1,), "int64", [-1]))
        asked = np.array(["dreißig", "two", "one", ""], object)
    given = np.array([one.encode() for one in asked], object) if not to_text else asked
    wanted = outputs_of(opened(model), [given])
    module, specs = from_tflite(model)
    found = tw.compile(module, cache=False).run({specs[0].name: asked})
    assert plain(found[0]) == plain(wanted[0])
    assert plain(found[1]) == plain(wanted[1]) == [3]


def test_damaged_texts_are_refused() -> None:
    words, numbers = T((3,), "string", WORDS), T((3,), "int64", NUMBERS)
    model = bytearray(table_model(words, numbers, T((1,), "string"), T((1,), "int64", [0])))
    position = model.find(np.array([3, 20, 23, 23], "<i4").tobytes())
    for offset, value in ((0, 4), (4, -1), (8, 1 << 20), (16, 1 << 20)):
        damaged = bytearray(model)
        damaged[position + offset : position + offset + 4] = np.array([value], "<i4").tobytes()
        with pytest.raises(ModelError):
            from_tflite(bytes(damaged))
