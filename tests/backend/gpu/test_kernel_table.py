"""The table of a model's kernels beside what the runtime records, and rooflines against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend.gpu import architectures
from tilewright.backend.gpu.kernel_table import KernelTable, kernel_table
from tilewright.backend.gpu.schedule.machine import TABLE


@pytest.fixture(autouse=True)
def without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "machine_code", lambda *_, **__: {})


def _table(body: relay.Expr, *params: relay.Var) -> KernelTable:
    model = tw.compile(
        relay.IRModule.from_expr(relay.Function(list(params), body)), target="cuda -arch=sm_80", cache=False
    )
    weights = max((one.offset + one.bytes for one in model.manifest.weights), default=0)
    return kernel_table(model.manifest, model.object_code, weights)


def test_bytes_and_launches_of_a_product_and_its_epilogue() -> None:
    x = relay.var("x", shape=(512, 256))
    weight = relay.const(np.ones((512, 256), "float32"))
    table = _table(relay.nn.relu(relay.nn.dense(x, weight)), x)
    (row,) = table.rows
    kib = 512 * 256 * 4
    assert (row.launches, row.copies, row.template) == (1, 0, "product")
    assert row.least == row.moved == row.far == 2 * kib + 512 * 512 * 4
    assert row.flops == 2 * 512 * 512 * 256 + 512 * 512
    assert (table.weights, table.allocations) == (kib, 1)
    a100 = TABLE["a100"]
    expected = max(row.flops / a100.peak_float32, row.far / a100.dram_bytes)
    assert table.seconds(a100, with_launches=False) == pytest.approx(expected)
    assert table.seconds(a100) == pytest.approx(expected + a100.launch)


def test_parts_of_sums_are_moved_within_one_launch() -> None:
    x = relay.var("x", shape=(64, 8192))
    table = _table(relay.nn.dense(x, relay.const(np.ones((64, 8192), "float32"))), x)
    (row,) = table.rows
    assert row.launches == 1
    assert row.moved - row.far == 2 * (row.moved - row.least) / 2 > 0  # parts of sums, written and read


def test_what_lies_in_the_arena_is_near_where_it_fits() -> None:
    x = relay.var("x", shape=(1024, 1024))
    table = _table(relay.nn.softmax(relay.cumsum(x, axis=1)), x)
    assert len(table.rows) == 2 and table.total("far") == 2 * 4 * 1024 * 1024
    near = table.total("moved") - table.total("far")
    small, large = TABLE["a10"], TABLE["h200"]
    assert small.l2 > table.arena
    for machine in (small, large):
        expected = near / machine.l2_bytes + table.total("far") / machine.dram_bytes
        assert table.seconds(machine, with_launches=False) == pytest.approx(expected, rel=0.5)
    assert table.seconds(TABLE["t4"], False) > table.seconds(small, False)


def test_figures_of_gpus_are_the_vendors() -> None:
    peaks = {  # float32 and float16 on tensor cores, teraoperations a second, as data sheets have them
        "t4": (8.1, 65), "a10": (31.2, 125), "rtx-3090": (35.6, 71), "a100": (19.5, 312), "l4": (30.3, 121),
        "l40s": (91.6, 362), "rtx-4090": (82.6, 165.2), "h100": (66.9, 989), "b200": (74.5, 2250),
        "rtx-5090": (104.8, 209.5),
    }  # fmt: skip
    for name, (plain, tensor) in peaks.items():
        machine = TABLE[name]
        assert machine.peak_float32 * 1e-12 == pytest.approx(plain, rel=0.12), name
        assert machine.peak_float16 * 1e-12 == pytest.approx(tensor, rel=0.05), name
        assert machine.peak_int8 == pytest.approx(machine.peak_float16 * machine.tensor_int8 / machine.tensor_float16)
