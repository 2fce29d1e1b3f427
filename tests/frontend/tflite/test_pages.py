"""docs/tflite.md lists the builtin operators that have a converter, and those that have none."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.frontend.tflite import supported_operators
from tilewright.frontend.tflite.schema import OPERATORS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "tflite.md").read_text()
#: Codes that stand for no operator of the schema's own.
OTHERS = {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}


def test_the_page_lists_the_builtin_operators() -> None:
    there, missing = re.findall(r"(?:are converted|Not yet, \d+):\n(.*?)\.\n", PAGE, re.DOTALL)
    known = supported_operators()
    assert re.findall(r"`(\w+)`", there) == known
    assert set(re.findall(r"`(\w+)`", missing)) == set(OPERATORS) - set(known) - OTHERS
    assert f"{len(known)} of the schema's {len(OPERATORS)} are converted" in PAGE
