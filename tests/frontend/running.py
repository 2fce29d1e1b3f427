"""Running an imported module in the Relay interpreter, which needs no compiler, and damaging files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tilewright.errors import UserError
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.module import IRModule


def run(mod: IRModule, inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """The results of `main` for inputs by name."""
    return [np.asarray(value) for value in interpret(mod, dict(inputs))]


def mutations(whole: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """`count` damaged forms of a file: cut off, with bytes changed, with parts taken out or repeated."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        data = bytearray(whole)
        begin, end = sorted(rng.integers(0, len(data) + 1, 2))
        if number % 4 == 0:
            yield bytes(data[:end])
        elif number % 4 == 1:
            del data[begin : min(end, begin + 40)]
            yield bytes(data)
        elif number % 4 == 2:
            data[begin:begin] = data[begin : min(end, begin + 40)]
            yield bytes(data)
        else:
            for position in rng.integers(0, len(data), rng.integers(1, 20)):
                data[position] = int(rng.choice([0, 45, 49, 57, 127, 128, 255, int(rng.integers(256))]))
            yield bytes(data)


def refused(convert: Callable[[bytes], Any], contents: Iterator[bytes]) -> int:
    """The number of `contents` that were refused; anything but a `UserError` fails the test."""
    count = 0
    for data in contents:
        try:
            convert(data)
        except UserError as error:
            assert str(error)
            count += 1
    return count
