"""Convolutions in matrix registers (AMX): exact sums beside dot products in vectors, tails, the choice by cost."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright import build, te, topi
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.layout import dot_conv2d_layouts
from tilewright.backend.cpu.schedule.product_spaces import CONV2D_DOT
from tilewright.backend.cpu.schedule.tile_intrin import Window, step_bytes, tile_groups, tile_starts
from tilewright.backend.cpu.schedule.tiled_conv2d import BY_ROWS, FLAT, DotConv2DWorkload
from tilewright.codegen.llvm import emit_module
from tilewright.target import Target
from tilewright.tir.dot_product import SUMS
from tilewright.tir.matrix_tiles import PRODUCTS
from tilewright.topi.reference.conv import conv2d_nchw
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.workload import Conv2DWorkload

AMX = Target("llvm -mcpu=sapphirerapids -cores=1")
#: Half an ulp of float32, relative.
ROUNDING = 2.0**-24


class _Case:
    """A random convolution of one pair of types: its computation, operands and exact sums."""

    def __init__(self, data: str, weight: str, seed: int, **given: object) -> None:
        self.types, rng = (data, weight), np.random.default_rng(seed)
        size, self.sums = SUMS[data]
        widest = 16 * size
        facts = {
            "in_block": int(rng.choice([size, 2 * size, widest // 2, widest])),
            "out_block": int(rng.choice([16, 32, 64])),
            "blocks": int(rng.integers(1, 4)),
            "image": tuple(map(int, rng.integers(5, 22, 2))),
            "kernel": tuple(map(int, rng.integers(1, 4, 2))),
            "strides": tuple(map(int, rng.integers(1, 3, 2))),
            "padding": tuple(map(int, rng.integers(0, 2, 4))),
            "dilation": tuple(map(int, rng.integers(1, 3, 2))),
        } | given
        self.strides, self.padding, self.dilation = facts["strides"], facts["padding"], facts["dilation"]
        self.in_block, self.out_block = facts["in_block"], facts["out_block"]
        channels, filters = facts["blocks"] * self.in_block, 2 * self.out_block
        self.x = _values(rng, data, 1, channels, *facts["image"])
        self.w = _values(rng, weight, filters, channels, *facts["kernel"])
        self.layouts = f"NCHW{self.in_block}c", f"OIHW{self.in_block // size}i{self.out_block}o{size}i"
        self.operands = (
            layout_transform(self.x, "NCHW", self.layouts[0]),
            layout_transform(self.w, "OIHW", self.layouts[1]),
        )
        self.code_of_zero = 0 if data == "bfloat16" else 3
        self.tensors = [te.placeholder(v.shape, t) for v, t in zip(self.operands, self.types, strict=True)]
        self.out = topi.nn.conv2d_dot_NCHWc(
            *self.tensors, self.strides, self.padding, self.dilation, pad_value=self.code_of_zero
        )

    def run(self, config: Config) -> np.ndarray:
        """The result by a configuration, in NCHW."""
        func = te.lower(schedule([self.out], AMX, config), [*self.tensors, self.out])
        result = np.zeros([int(n.value) for n in self.out.shape], self.sums)
        build(func, target=AMX)["main"](*self.operands, result)
        return layout_transform(result, f"NCHW{self.out_block}c", "NCHW")

    def exact(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The sums in float64, which has all of these integers."""
        top, left, bottom, right = self.padding
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        padded = np.pad(data.astype("float64"), around, constant_values=self.code_of_zero)
        return conv2d_nchw(padded, weight.astype("float64"), self.strides, dilation=self.dilation)

    def check(self, found: np.ndarray) -> None:
        """Compare with the exact sums; of bfloat16 each product and sum may be rounded once."""
        exact = self.exact(self.x, self.w)
        if self.sums == "int32":
            np.testing.assert_array_equal(found, exact)
            return
        terms = self.w[0].size + 1
        bound = terms * ROUNDING * self.exact(np.abs(self.x), np.abs(self.w))
        assert (np.abs(found - exact) <= bound + 1e-30).all()


def _values(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    info = np.iinfo(dtype)
    return np.where(rng.random(shape) < 0.3, info.min, rng.integers(info.min, info.max + 1, shape)).astype(dtype)


def _needs_tiles() -> None:
    if not AMX.is_host:
        pytest.skip("this machine has no AMX")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("data", "weight"), PRODUCTS)
def test_random_convolutions_have_the_sums_of_dot_products(data: str, weight: str, seed: int) -> None:
    """A configuration of matrix registers, another for each seed, and one of vectors."""
    _needs_tiles()
    case = _Case(data, weight, seed)
    ranked = [config for _, config in space_of([case.out], AMX).ranked]
    tiled = [config for config in ranked if config["matrix"]]
    for config in (tiled[seed * (len(tiled) - 1) // 2], next(c for c in ranked if not c["matrix"])):
        case.check(case.run(config))


@pytest.mark.parametrize("height", [14, 7, 2, 1])
def test_tiles_of_pixels_reach_over_rows(height: int) -> None:
    _needs_tiles()
    case = _Case("uint8", "int8", 0, image=(14, 7), kernel=(1, 1), strides=(1, 1), padding=(0, 0, 0, 0), in_block=64)
    tiled = [config for _, config in space_of([case.out], AMX).ranked if config["matrix"] == FLAT]
    case.check(case.run(next(config for config in tiled if config["tile_rows"] == height)))


@pytest.mark.parametrize(
    ("data", "kernel", "in_block", "step"),
    [("uint8", 3, 16, 48), ("uint8", 7, 4, 28), ("uint8", 3, 64, 64), ("bfloat16", 1, 16, 32)],
)
def test_taps_beside_each_other_are_one_step(data: str, kernel: int, in_block: int, step: int) -> None:
    """The bytes of a register's rows, in code for a processor with AMX on any machine."""
    weight = "bfloat16" if data == "bfloat16" else "int8"
    case = _Case(data, weight, 1, kernel=(kernel, kernel), in_block=in_block, dilation=(1, 1), image=(9, 30))
    tiled = next(config for _, config in space_of([case.out], AMX).ranked if config["matrix"])
    func = te.lower(schedule([case.out], AMX, tiled), [*case.tensors, case.out])
    text = emit_module([func], AMX).text
    layout = next(line for line in text.splitlines() if line.startswith("@main__tiles"))
    found = [int(word.split()[1]) for word in layout[layout.index("[i8") + 1 : layout.rindex("]")].split(", ")]
    assert PRODUCTS[data, weight] in text
    assert (found[16 + 2 * 4], found[48 + 6], found[16 + 2 * 6]) == (step, step // 4, 64)


def test_rows_are_cut_into_tiles_of_one_height() -> None:
    assert tile_starts(197) == (16, [*range(0, 177, 16), 181])
    assert tile_starts(49) == (13, [0, 13, 26, 36])
    assert tile_starts(7) == (7, [0])
    assert [step_bytes(run) for run in (4, 48, 64, 96, 192, 200)] == [4, 48, 64, 48, 64, 40]
    for tiles, regular, panels in ((1, 1, 1), (1, 1, 4), (3, 2, 2), (5, 5, 1), (7, 6, 4), (4, 3, 6), (8, 7, 1)):
        groups = tile_groups(tiles, regular, panels)
        assert all(group.down * group.across <= 4 and panels % group.across == 0 for group in groups)
        assert [group.first for group in groups] == [0, groups[0].times * groups[0].down][: len(groups)]
        assert sum(group.times * group.down for group in groups) == tiles


def test_tiles_of_a_window_cover_its_pixels() -> None:
    window = Window(3, 20, 32, 1, 64, (1, 1), (1, 1), (1, 1))
    assert window.tiles(True) == (1, 15, [0, 15, 30, 45])
    assert window.tiles(False) == (3, 10, [0, 10])


def test_blocks_of_channels_fill_the_rows_of_registers() -> None:
    conv = Conv2DWorkload(1, 128, 192, 14, 14, 14, 14, kernel_size=(3, 3), padded=True)
    best = min(dot_conv2d_layouts(conv, AMX, None, 1), key=lambda way: way.cost)
    assert (best.data, best.kernel, best.out) == ("NCHW64c", "OIHW16i64o4i", "NCHW64c")
    pairs = min(dot_conv2d_layouts(conv, AMX, None, 2), key=lambda way: way.cost)
    assert (pairs.data, pairs.kernel, pairs.out) == ("NCHW32c", "OIHW16i32o2i", "NCHW32c")
    (only,) = dot_conv2d_layouts(conv, Target("llvm -mcpu=icelake-server"), None, 1)
    assert (only.data, only.kernel, only.out, only.cost) == ("NCHW16c", "OIHW4i16o4i", "NCHW16c", 0.0)
    assert {way.data for way in dot_conv2d_layouts(conv, AMX, 16, 1)} == {"NCHW16c"}


def test_other_processors_have_no_such_tiles() -> None:
    case = _Case("uint8", "int8", 2)
    config = space_of([case.out], Target("llvm -mcpu=icelake-server")).default
    assert "matrix" not in config and {BY_ROWS, FLAT} == {1, 2}


@pytest.mark.parametrize(("channels", "filters", "size", "matrix"), [(16, 96, 112, False), (64, 384, 14, True)])
def test_few_channels_stay_in_vectors(channels: int, filters: int, size: int, matrix: bool) -> None:
    """Sums of matrix registers go through memory, which costs more than four dot products for a vector of them."""
    conv = Conv2DWorkload(1, channels, filters, size, size, size, size)
    best = min(dot_conv2d_layouts(conv, AMX, None, 1), key=lambda way: way.cost)
    blocks = [int("".join(filter(str.isdigit, layout))) for layout in (best.data, best.out)]
    workload = DotConv2DWorkload(**(vars(conv) | dict(zip(("in_block", "out_block"), blocks, strict=True))))
    assert bool(CONV2D_DOT.ranked(workload, AMX).cheapest[1]["matrix"]) is matrix
