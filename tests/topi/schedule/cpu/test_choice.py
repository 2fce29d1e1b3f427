"""What a schedule chose, read off its loop nest."""

from __future__ import annotations

import json

import pytest

from tilewright import te, topi
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.choice import Choice, choice_of
from tilewright.topi.schedule.cpu.dispatch import schedule

AVX512 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
AVX2 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")


def chosen(outs: list[te.Tensor], inputs: list[te.Tensor], target: Target = AVX512) -> Choice:
    _, loop_nest = next(te.lower_stages(schedule(outs, target), [*inputs, *outs], "kernel"))
    return choice_of(outs, loop_nest, target)


def conv2d(block: int, blocks: int = 4) -> tuple[te.Tensor, list[te.Tensor]]:
    data = te.placeholder((1, blocks, 56, 56, block), "float32", "data")
    kernel = te.placeholder((blocks, blocks, 3, 3, block, block), "float32", "kernel")
    return topi.nn.conv2d_NCHWc(data, kernel, (1, 1), (1, 1, 1, 1), (1, 1)), [data, kernel]


@pytest.mark.parametrize(("target", "block"), [(AVX512, 16), (AVX2, 8)])
def test_the_tile_of_a_convolution(target: Target, block: int) -> None:
    out, inputs = conv2d(block)
    choice = chosen([out], inputs, target)
    assert choice.template == "conv2d_NCHWc" and choice.lanes == block
    accumulators = 1
    for _, extent in choice.tile:
        accumulators *= extent
    assert accumulators == choice.rows * choice.vectors <= choice.registers <= target.vector_registers
    assert choice.predicted is not None and 0.3 < choice.predicted <= 1.0
    assert choice.parallel


def test_the_prediction_is_that_of_the_tile() -> None:
    data, weight = te.placeholder((30, 64), "float32", "x"), te.placeholder((2, 64, 32), "float32", "w")
    choice = chosen([topi.nn.dense_pack(data, weight)], [data, weight])
    assert choice.template == "dense_pack" and choice.vectors == 2
    assert choice.predicted == pytest.approx(tile.efficiency(choice.rows, 2, 30, AVX512), abs=1e-3)


def test_half_filled_vectors_predict_half() -> None:
    whole, half = (chosen([out], inputs) for out, inputs in (conv2d(16), conv2d(8)))
    assert half.lanes == 8 and half.predicted is not None and whole.predicted is not None
    assert half.predicted < 0.6 * whole.predicted


def test_other_kernels_have_a_template_only() -> None:
    x = te.placeholder((64, 1024), "float32", "x")
    relu = chosen([topi.nn.relu(x)], [x])
    assert (relu.template, relu.predicted) == ("injective", None)
    assert relu.tile == ()
    assert chosen([topi.sum(x, axis=1)], [x]).template == "reduce"


def test_a_choice_survives_json() -> None:
    out, inputs = conv2d(16)
    choice = chosen([out], inputs)
    assert Choice.from_json(json.loads(json.dumps(choice.to_json()))) == choice
