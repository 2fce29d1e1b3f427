"""The choice for a kernel: its template, configuration and expected time."""

from __future__ import annotations

import json

import pytest

from tilewright import te, topi
from tilewright.backend.cpu.schedule.choice import choice_of
from tilewright.backend.cpu.schedule.dispatch import space_of
from tilewright.target import Target
from tilewright.topi.schedule.choice import Choice

AVX512 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -cores=1")
AVX2 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -cores=1")


def conv2d(block: int, blocks: int = 4) -> te.Tensor:
    data = te.placeholder((1, blocks, 56, 56, block), "float32", "data")
    kernel = te.placeholder((blocks, blocks, 3, 3, block, block), "float32", "kernel")
    return topi.nn.conv2d_NCHWc(data, kernel, (1, 1), (1, 1, 1, 1), (1, 1))


@pytest.mark.parametrize(("target", "block"), [(AVX512, 16), (AVX2, 8)])
def test_the_choice_of_a_convolution(target: Target, block: int) -> None:
    out = conv2d(block)
    choice = choice_of([out], target)
    space = space_of([out], target)
    assert space is not None and choice.template == "conv2d_NCHWc"
    assert dict(choice.config) == space.default.to_json()
    seconds = 2 * (4 * block) ** 2 * 9 * 56 * 56 / target.machine.peak_gflops / 1e9
    assert 1.0 < choice.microseconds / (seconds * 1e6) < 2.0
    assert choice.bound in ("arithmetic", "load_ports", "l2")


def test_a_given_configuration_is_what_is_shown() -> None:
    out = conv2d(16)
    given = {"tile_rows": 1, "tile_blocks": 1, "tile_columns": 4, "band_rows": 56, "ahead": 0}
    choice = choice_of([out], AVX512, given)
    assert dict(choice.config) == {**given, "parts": 1}  # which configurations had none of before it was a knob
    assert choice.microseconds > choice_of([out], AVX512).microseconds


def test_half_filled_vectors_take_longer() -> None:
    """Twice as many channels in whole vectors are four times the work, in twice the time of half vectors or less."""
    whole, half = (choice_of([conv2d(block)], AVX512).microseconds for block in (16, 8))
    assert whole < 2.6 * half


def test_kernels_that_move_data_are_bound_by_it() -> None:
    x = te.placeholder((64, 16384), "float32", "x")
    relu = choice_of([topi.nn.relu(x)], AVX512)
    assert (relu.template, relu.config, relu.bound) == ("injective", (), "l3")
    least = 2 * 64 * 16384 * 4 / (AVX512.machine.read_l3.one * AVX512.machine.ghz * 1e3)
    assert relu.microseconds > least
    assert choice_of([topi.sum(x, axis=1)], AVX512).template == "reduce"


def test_of_a_table_only_what_is_gathered_counts() -> None:
    rows = te.placeholder((35,), "int64", "rows")
    short, long = (
        choice_of([topi.take(te.placeholder((many, 512), "float32", "table"), rows, axis=0)], AVX512).microseconds
        for many in (64, 10_000)
    )
    assert short == pytest.approx(long)


def test_the_explanation_names_the_bound() -> None:
    lines = choice_of([conv2d(16)], AVX512).explained()
    assert lines[0] == "template conv2d_NCHWc" and lines[1].startswith("chose tile_rows=")
    assert "bound by" in lines[2] and "arithmetic" in lines[2]


def test_a_choice_survives_json() -> None:
    choice = choice_of([conv2d(16)], AVX512)
    assert Choice.from_json(json.loads(json.dumps(choice.to_json()))) == choice
