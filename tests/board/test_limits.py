"""Models within limits of memory: the same integers from slower code, the figures that are kept, and refusals."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.backend.board.test_backend import _run
from tests.relay.helpers import module
from tilewright import relay
from tilewright.board.report import model_sizes
from tilewright.compile import export_source
from tilewright.driver.build_source import Exported
from tilewright.errors import UnsupportedError
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.infer_type import infer_type
from tilewright.topi.reference.byte_conv import BYTES

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
TARGET = "c -mcpu=cortex-m3"


def _layer(x: relay.Expr, channels: int, stride: int) -> relay.Expr:
    rng = np.random.default_rng(channels + stride)
    depth = op.common.dims(x)[3]
    weight = rng.integers(-20, 20, (channels, 9 * depth, 1)).astype(np.int8)
    bias = rng.integers(-900, 900, channels).astype(np.int32)
    window = (3, 3), (stride, stride), (1, 1, 1, 1), 4, BYTES
    sums = op.nn.contrib_conv2d_bytes(x, relay.const(weight), relay.const(bias), *window)
    return op.cast(op.clip(op.right_shift(sums, relay.const(np.int32(8))), -128, 127), "int8")


def _network() -> tuple[relay.IRModule, np.ndarray]:
    """A large early image, a sum of two values, and a small last one."""
    x = relay.var("x", shape=(1, 24, 24, 2), dtype="int8")
    first = _layer(x, 8, 1)
    second = op.cast(_layer(first, 8, 1), "int32") + op.cast(first, "int32")
    small = _layer(op.cast(op.clip(second, -128, 127), "int8"), 4, 2)
    data = np.random.default_rng(0).integers(-128, 128, (1, 24, 24, 2)).astype(np.int8)
    return infer_type(module(_layer(small, 2, 2))), data


def _workspace(written: Exported) -> int:
    return written.models[0].c_model.interface.workspace_size


@needs_cc
def test_first_layers_in_bands_fit_and_compute_the_same(tmp_path: Path) -> None:
    mod, x = _network()
    (want,) = interpret(mod, {"x": x})
    free = export_source(mod, tmp_path / "free.c", target=TARGET)
    assert not free.traded and 4_608 < _workspace(free) < 6_500  # an image of 4,608 bytes, rows, windows
    limit = _workspace(free) * 7 // 10
    tight = export_source(mod, tmp_path / "tight.c", target=TARGET, ram_limit=limit)
    assert _workspace(tight) <= limit and "bands of rows" in tight.traded[0]
    for written, name in ((free, "free"), (tight, "tight")):
        assert np.array_equal(_run(written[0], name, x, np.empty(want.shape, want.dtype)), want)


def test_a_limit_that_nothing_meets_is_refused_with_the_smallest_figure(tmp_path: Path) -> None:
    mod, _ = _network()
    with pytest.raises(
        UnsupportedError, match=r"smallest workspace that was reached is \d,\d{3} bytes, and --ram-limit"
    ):
        export_source(mod, tmp_path / "net.c", target=TARGET, ram_limit=500)
    assert not list(tmp_path.iterdir())


@needs_cc
def test_smaller_code_where_the_limit_of_code_asks_for_it(tmp_path: Path) -> None:
    x = relay.var("x", shape=(1, 8, 8, 2), dtype="int8")
    mod = infer_type(module(_layer(x, 4, 1)))
    data = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 2)).astype(np.int8)
    (want,) = interpret(mod, {"x": data})
    target = "c -mcpu=generic"
    free = model_sizes(export_source(mod, tmp_path / "free.c", target=target), target)
    assert free is not None
    small = export_source(mod, tmp_path / "small.c", target=target, rom_limit=free.rom - 64)
    sizes = model_sizes(small, target)
    assert "smaller tiles" in small.traded[0] and sizes is not None and sizes.rom <= free.rom - 64
    assert np.array_equal(_run(small[0], "small", data, np.empty(want.shape, want.dtype)), want)
