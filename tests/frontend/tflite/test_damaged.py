"""Truncated, mutated and hostile files give one error; needs neither LiteRT nor FlatBuffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import UserError
from tilewright.frontend.tflite import from_tflite

MODELS = Path(__file__).resolve().parents[3].parent / "shared" / "models" / "real" / "tflite"
SMALL = MODELS / "micro_wakeword" / "hey_jarvis.tflite"


def converts_or_refuses(data: bytes) -> bool:
    """True where the bytes are a model; anything but a `UserError` fails the test."""
    try:
        from_tflite(data)
    except UserError as error:
        assert str(error)
        return False
    return True


def test_what_is_no_model_is_refused() -> None:
    for data in (b"", b"TFL3", b"\0\0\0\0TFL3", b"\xff\xff\xff\xffTFL3" + bytes(64), bytes(4) + b"TFL3" + bytes(99)):
        assert not converts_or_refuses(data)


@pytest.mark.skipif(not SMALL.is_file(), reason="../shared/models/real/tflite is absent")
def test_truncated_files_are_refused() -> None:
    whole = SMALL.read_bytes()
    for length in np.linspace(8, len(whole) - 1, 60).astype(int):
        assert not converts_or_refuses(whole[:length])


@pytest.mark.skipif(not SMALL.is_file(), reason="../shared/models/real/tflite is absent")
def test_mutated_files_give_one_error_or_a_model() -> None:
    whole = SMALL.read_bytes()
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(250):
        data = bytearray(whole)
        for position in rng.integers(0, len(data), rng.integers(1, 30)):
            data[position] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
        refused += not converts_or_refuses(bytes(data))
    assert refused > 50
