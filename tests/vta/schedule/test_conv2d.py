"""Convolutions as programs beside NumPy, bit for bit, in all orders that the tokens allow, and without a race."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError
from tilewright.vta import Config, Dram, Isa, open_driver
from tilewright.vta.commands import Commands
from tilewright.vta.functional import CheckedDriver
from tilewright.vta.hardware import Hardware
from tilewright.vta.network.network import convolution, largest_sums
from tilewright.vta.schedule.choice import tune
from tilewright.vta.schedule.conv2d import Addresses, conv2d
from tilewright.vta.schedule.epilogue import Epilogue, Step
from tilewright.vta.schedule.geometry import Conv2D, Tiling
from tilewright.vta.schedule.layout import pack_image, pack_weights, unpack_image

#: ResNet-18 after its first convolution: channels in and out, rows, kernel, stride. C2 to C12 of the paper.
RESNET = [
    (64, 64, 56, 3, 1), (64, 64, 56, 1, 1), (64, 128, 56, 3, 2), (64, 128, 56, 1, 2), (128, 128, 28, 3, 1),
    (128, 256, 28, 3, 2), (128, 256, 28, 1, 2), (256, 256, 14, 3, 1), (256, 512, 14, 3, 2), (256, 512, 14, 1, 2),
    (512, 512, 7, 3, 1),
]  # fmt: skip

SMALL = Config(log_batch=1, log_block=2, log_uop_buff_size=9, log_inp_buff_size=9, log_wgt_buff_size=9,
               log_acc_buff_size=11)  # fmt: skip


def reference(x: np.ndarray, w: np.ndarray, groups: int, stride: tuple, pad: tuple, dilation: tuple) -> np.ndarray:
    """The sums in float64, where these are exact."""
    top, left, bottom, right = pad
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    parts = [
        np.einsum("nchwij,ocij->nohw", part, weights.astype(np.float64), optimize=True)
        for part, weights in zip(np.split(windows, groups, axis=1), np.split(w, groups, axis=0))
    ]
    return np.concatenate(parts, axis=1).astype(np.int64)


class Case:
    """A convolution of random numbers, its program, and what it is to give."""

    def __init__(
        self, isa: Isa, data: tuple, weight: tuple, groups: int = 1, stride: tuple = (1, 1),
        pad: tuple = (0, 0, 0, 0), dilation: tuple = (1, 1), threads: int = 2, tiling: Tiling | None = None,
    ) -> None:  # fmt: skip
        rng, config = np.random.default_rng(3), isa.config
        x, w = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in (data, weight))
        bias = rng.integers(-(1 << 12), 1 << 12, weight[0], dtype=np.int32)
        sums = reference(x, w, groups, stride, pad, dilation) + bias.reshape(1, -1, 1, 1)
        self.expected = np.clip(sums >> 7, -100, 127)
        self.isa, self.dram = isa, Dram(isa, 1 << 23)
        conv = convolution(config, data, weight, stride, pad, dilation, groups)
        batches, left, blocks = conv.images, conv.groups, conv.outputs
        steps = [Step("ADD", bias), Step("SHR", 7), Step("MAX", -100), Step("MIN", 127)]
        epilogue = Epilogue.of(isa, self.dram, left * blocks, steps, largest_sums(w))
        room = epilogue.reserved, epilogue.most_outputs()
        tiling = tiling or tune(config, Hardware(), conv, threads, *room).tiling
        self.count = batches * left * blocks * conv.out_height * conv.out_width
        image = self.dram.put("INP", pack_image(x, config))
        at = Addresses(
            image, self.dram.put("WGT", pack_weights(w, groups, config)), self.dram.reserve("OUT", self.count)
        )
        self.out, self.conv, self.tiling = at.out, conv, tiling
        self.commands = Commands(isa, self.dram)
        conv2d(self.commands, conv, at, epilogue, tiling)
        self.program = self.commands.finish()

    def result(self) -> np.ndarray:
        tiles = self.dram.read("OUT", self.out, self.count)
        return unpack_image(tiles, self.expected.shape, self.isa.config)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layer", RESNET, ids=lambda layer: "-".join(map(str, layer)))
@pytest.mark.sample(5)
def test_the_layers_of_resnet(layer: tuple[int, ...], threads: int) -> None:
    inputs, outputs, size, kernel, stride = layer
    pad = (kernel // 2,) * 4
    weight = (outputs, inputs, kernel, kernel)
    case = Case(Isa(), (1, inputs, size, size), weight, 1, (stride, stride), pad, threads=threads)
    counters = open_driver("native", case.isa, case.dram).run(*case.program)
    np.testing.assert_array_equal(case.result(), case.expected)
    outputs = case.conv.outputs * case.conv.out_height * case.conv.out_width
    zeros = case.tiling.sums * threads  # before the first tile of each thread; from then on sums begin with the bias
    assert counters["ALU steps"] + counters["GEMM steps"] == case.conv.gemm_steps + 4 * outputs + zeros


GEOMETRIES = {
    "product": {"data": (3, 24, 1, 1), "weight": (20, 24, 1, 1)},
    "padded on one side": {"data": (1, 6, 7, 5), "weight": (10, 6, 3, 2), "pad": (0, 1, 2, 0), "stride": (2, 1)},
    "dilated": {"data": (2, 8, 9, 8), "weight": (4, 8, 3, 3), "dilation": (2, 3), "pad": (2, 3, 2, 3)},
    "depthwise": {"data": (1, 12, 8, 8), "weight": (12, 1, 3, 3), "groups": 12, "pad": (1, 1, 1, 1)},
    "groups": {"data": (1, 16, 6, 6), "weight": (24, 8, 3, 3), "groups": 2, "stride": (2, 2)},
    "groups of 3": {"data": (1, 9, 5, 5), "weight": (6, 3, 3, 3), "groups": 3},
    "columns left out, rows padded": {
        "data": (1, 6, 9, 9),
        "weight": (4, 6, 3, 1),
        "pad": (1, 0, 1, 0),
        "stride": (1, 2),
    },
    "rows left out, columns padded": {
        "data": (1, 6, 9, 9),
        "weight": (4, 6, 1, 3),
        "pad": (0, 1, 0, 1),
        "stride": (2, 1),
    },
    "one column": {"data": (1, 4, 17, 1), "weight": (8, 4, 5, 1), "pad": (2, 0, 2, 0)},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.sample(5)
def test_any_geometry_in_any_order(name: str, threads: int) -> None:
    for seed in range(3):
        case = Case(Isa(SMALL), **GEOMETRIES[name], threads=threads)
        CheckedDriver(case.isa, case.dram, seed).run(*case.program)
        np.testing.assert_array_equal(case.result(), case.expected)


TILINGS = {
    "what is kept": [Tiling(2, 4, 2, 1, 2, keep) for keep in ("weights", "image", "")],
    "parts": [Tiling(3, 8, outputs, 2, 2, "", parts) for outputs, parts in ((1, 4), (2, 4), (3, 2), (2, 1))],
    "one thread": [
        Tiling(2, 4, 2, 1, 1, keep, early=early) for keep in ("weights", "image") for early in (True, False)
    ],
    "zeros by the matrix unit": [Tiling(4, 3, 1, 2, early=False), Tiling(1, 8, 3, 3, keep="image", early=False)],
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", TILINGS)
@pytest.mark.sample(3)
def test_any_tiling_in_any_order(name: str, version: int) -> None:
    config = Config(log_block=2, log_uop_buff_size=12, log_inp_buff_size=11, log_wgt_buff_size=12, log_acc_buff_size=12,
                    isa_version=version)  # fmt: skip
    for seed, tiling in enumerate(TILINGS[name]):
        for geometry in (
            {"data": (1, 12, 8, 8), "weight": (20, 12, 3, 3), "pad": (1, 1, 1, 1)},
            {"data": (2, 12, 15, 15), "weight": (12, 12, 1, 1), "stride": (2, 2)},
            {"data": (1, 16, 8, 8), "weight": (24, 8, 3, 1), "groups": 2, "stride": (1, 3)},
        ):
            case = Case(Isa(config), **geometry, tiling=tiling)
            CheckedDriver(case.isa, case.dram, seed).run(*case.program)
            np.testing.assert_array_equal(case.result(), case.expected)


def test_pixels_that_are_not_read_are_not_loaded() -> None:
    for geometry in ((1, 16, 29, 29), (1, 16, 15, 15)):
        case = Case(Isa(), geometry, (16, 16, 1, 1), stride=(2, 2), tiling=Tiling(5, 5, 1, 1))
        loaded = open_driver("native", case.isa, case.dram).run(*case.program)["INP bytes"]
        assert loaded == 16 * case.conv.out_height * case.conv.out_width


def test_weights_that_are_kept_are_loaded_once() -> None:
    loaded = {}
    for keep in ("weights", ""):
        case = Case(Isa(), (1, 32, 12, 12), (64, 32, 3, 3), pad=(1, 1, 1, 1), tiling=Tiling(3, 12, 2, 1, keep=keep))
        loaded[keep] = open_driver("native", case.isa, case.dram).run(*case.program)["WGT bytes"]
        np.testing.assert_array_equal(case.result(), case.expected)
    assert loaded == {"weights": 64 * 32 * 9, "": 4 * 64 * 32 * 9}


def test_vectors_that_do_not_stay_are_loaded_with_each_tile() -> None:
    case = Case(Isa(SMALL), (1, 8, 1, 1), (400, 8, 1, 1))
    CheckedDriver(case.isa, case.dram, 0).run(*case.program)
    np.testing.assert_array_equal(case.result(), case.expected)


def test_two_threads_load_ahead() -> None:
    """The tokens let the second load begin before the first product is done, and only with two threads."""
    for threads in (1, 2):
        case = Case(Isa(), (1, 64, 14, 14), (64, 64, 3, 3), pad=(1, 1, 1, 1), threads=threads)
        loads = [x for x in case.commands.program() if x.name == "LOAD" and x["mem_id"] in (1, 2)]
        waiting = [bool(x["pop_next"]) for x in loads]
        first = waiting.index(True)
        started = sum(bool(x["push_next"]) for x in loads[:first])
        assert started == threads


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="does not fit on the accelerator 2x4_i8w8a32_9_9_9_11"):
        tune(SMALL, Hardware(), Conv2D(1, 1, 1, 64, 64, (9, 9)), 2)
    with pytest.raises(InputError, match=r"Tiling\(rows=112.* does not fit on the accelerator 1x16"):
        Case(Isa(), (1, 16, 112, 112), (16, 16, 3, 3), tiling=Tiling(112, 112, 1, 1))
    assert "more than 15" in Conv2D(1, 1, 1, 64, 64, (33, 33), padding=(16, 0, 0, 0)).refusal()
    assert "as wide as the kernel" in Conv2D(1, 1, 1, 64, 64, (3, 3), padding=(3, 0, 0, 0)).refusal()


def test_two_bounds_are_one_step_where_the_instructions_have_that() -> None:
    steps = []
    for version in (1, 2):
        case = Case(Isa(Config(isa_version=version)), (1, 32, 9, 9), (16, 32, 3, 3))
        steps.append(open_driver("native", case.isa, case.dram).run(*case.program)["ALU steps"])
        np.testing.assert_array_equal(case.result(), case.expected)
    assert steps == [4 * 49, 3 * 49]
