"""Matrix products: every way to compute one gives the same; what it costs follows the machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import sample
from tilewright import te, tir, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.product import (
    Blocking,
    ProductWorkload,
    blocking_cost,
    dense_workload,
    product_cost,
    worth_sharing,
)
from tilewright.backend.cpu.schedule.product_spaces import BATCH_MATMUL, DENSE, dense_block, dot_block
from tilewright.backend.cpu.schedule.recurrent_cost import RecurrentWorkload, recurrent_cost, unit_block
from tilewright.target import Target
from tilewright.tir.visitor import post_order

SKYLAKE = "llvm -mcpu=skylake-avx512"


def test_row_blocks_and_groups_compute_the_same() -> None:
    """A small second-level cache makes blocks of rows; 45 rows leave a tile and a block of fewer."""
    target = Target("cpu -l2=16384 -cores=3")
    x, w = sample(45, 40), sample(6, 40, 16, seed=1)
    expected = x @ w.transpose(1, 0, 2).reshape(40, 96)
    positions = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    out = topi.nn.dense_pack(*positions)
    space = space_of([out], target)
    assert space is not None
    rows = max(c["tile_rows"] for c in space if c["tile_rows"] <= 7 and 45 % c["tile_rows"])
    kinds = {
        (c["block_tiles"] > 0, c["group"], c["ahead"], c["depth_blocks"]): c for c in space if c["tile_rows"] == rows
    }
    assert {(True, 0, 1, 1), (True, 2, 0, 1), (False, 1, 1, 1)} <= set(kinds) and any(kind[3] > 1 for kind in kinds)
    for config in kinds.values():
        func = te.lower(schedule([out], target, config), [*positions, out], "product")
        result = np.full((45, 96), np.nan, np.float32)
        build([func], target, threads=2)["product"](x, w, result)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=str(config))


@pytest.mark.sample(2)
@pytest.mark.parametrize("rows", [(1, 56, 56), (2, 7, 7), (1, 5, 1, 9), (3, 1, 50)], ids=str)
def test_a_tile_sums_its_own_rows(rows: tuple[int, ...]) -> None:
    """Rows of several axes, which no tile divides: each tile makes room for itself, not for all lines it touches."""
    target = Target(SKYLAKE)
    positions = te.placeholder((*rows, 64), name="x"), te.placeholder((3, 64, 32), name="w")
    out = topi.nn.relu(topi.nn.dense_pack(*positions))
    space = space_of([out], target)
    assert space is not None
    configs = {c["tile_rows"]: c for c in space if c["depth_blocks"] == 1}
    assert len(configs) > 3
    for tile, config in configs.items():
        func = te.lower(schedule([out], target, config), [*positions, out], "product")
        assert 0 < _most_elements(func) <= tile * 32, config


def _most_elements(func: tir.PrimFunc) -> int:
    """Of the largest buffer that the function makes."""
    sizes = [0]

    def visit(node: object) -> None:
        if isinstance(node, tir.Allocate):
            sizes.append(math.prod(extent.value for extent in node.extents if isinstance(extent, tir.IntImm)))

    post_order(func.body, visit)
    return max(sizes)


def test_parts_of_the_depth_and_an_epilogue() -> None:
    """Leading axes, a bias and a remainder of rows, with the sums of a share in memory of its own."""
    target = Target("cpu -l2=8192 -cores=2")
    x, w, bias = sample(2, 19, 48), sample(4, 48, 16, seed=1), sample(64, seed=2)
    expected = np.maximum(x @ w.transpose(1, 0, 2).reshape(48, 64) + bias, 0)
    positions = [te.placeholder(a.shape, name=name) for name, a in (("x", x), ("w", w), ("bias", bias))]
    dense = topi.nn.dense_pack(*positions[:2])
    out = topi.nn.relu(te.compute(dense.shape, lambda b, i, j: dense[b, i, j] + positions[2][j], tag="injective"))
    space = space_of([out], target)
    assert space is not None
    configs = {c["depth_blocks"]: c for c in space if c["depth_blocks"] > 1}
    assert configs
    for config in configs.values():
        func = te.lower(schedule([out], target, config), [*positions, out], "product")
        result = np.full((2, 19, 64), np.nan, np.float32)
        build([func], target, threads=2)["product"](x, w, bias, result)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=str(config))


def test_all_leading_axes_are_rows_of_one_product() -> None:
    """Tiles reach over the borders of 3 * 2 * 7 rows, and the epilogue reads them by their own axes."""
    x, w, more = sample(3, 2, 7, 24), sample(2, 24, 16, seed=1), sample(2, 1, 32, seed=2)
    expected = x @ w.transpose(1, 0, 2).reshape(24, 32) + more
    positions = [te.placeholder(a.shape, name=name) for name, a in (("x", x), ("w", w), ("more", more))]
    dense = topi.nn.dense_pack(*positions[:2])
    out = topi.add(dense, positions[2])
    workload = dense_workload(dense.op.input_tensors[0], out)
    assert (workload.batch, workload.rows) == (1, 42)
    space = space_of([out], Target("cpu"))
    assert space is not None
    configs = {c["tile_rows"]: c for c in space}
    for config in configs.values():
        func = te.lower(schedule([out], Target("cpu"), config), [*positions, out], "product")
        result = np.full((3, 2, 7, 32), np.nan, np.float32)
        build([func], Target("cpu"), threads=2)["product"](x, w, more, result)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=str(config))


@pytest.mark.parametrize(("rows", "depth", "columns"), [(40, 256, 48), (22, 20, 33), (21, 1024, 32)])
def test_transposed_rows_in_groups_and_blocks(rows: int, depth: int, columns: int) -> None:
    """A transposed matrix in groups of 4, 2 and 1 rows, copied whole and by blocks of rows and of the depth.

    The order of a sum follows from the parts of the depth alone.
    """
    target = Target("cpu -l2=65536 -cores=2")
    x, w, bias = sample(1, depth, rows), sample(1, depth, columns, seed=1), sample(columns, seed=2)
    expected = x[0].T.astype("float64") @ w[0].astype("float64") + bias
    positions = [te.placeholder(a.shape, name=name) for name, a in (("x", x), ("w", w), ("bias", bias))]
    product = topi.nn.batch_matmul(*positions[:2], transpose_a=True, transpose_b=False)
    out = te.compute(product.shape, lambda b, i, j: product[b, i, j] + positions[2][j], tag="injective")
    space = space_of([out], target)
    assert space is not None
    configs = {(bool(c["block_tiles"]), c["tile_rows"] > 4, c["depth_blocks"]): c for c in space}
    assert {blocked for blocked, *_ in configs} == {True, False}
    assert depth == 256 or (depth == 1024) == any(parts > 1 for *_, parts in configs)
    found: dict[int, list[np.ndarray]] = {}
    for config in configs.values():
        func = te.lower(schedule([out], target, config), [*positions, out], "product")
        for threads in (1, 2):
            result = np.full((1, rows, columns), np.nan, np.float32)
            build([func], target, threads=threads)["product"](x, w, bias, result)
            np.testing.assert_allclose(result[0], expected, rtol=1e-4, atol=1e-4, err_msg=str(config))
            found.setdefault(config["depth_blocks"], []).append(result)
    assert all(np.array_equal(result, one[0]) for one in found.values() for result in one)


def test_what_the_epilogue_of_the_next_tile_reads_is_fetched() -> None:
    """A matrix that the epilogue reads, through a stage that is inlined; not the operands of the same shape."""
    x, w, more = (sample(1, 64, 64, seed=seed) for seed in range(3))
    positions = [te.placeholder(a.shape, name=name) for name, a in (("x", x), ("w", w), ("more", more))]
    out = topi.add(topi.nn.batch_matmul(*positions[:2]), topi.exp(positions[2]))
    s = schedule([out], Target("cpu"))
    assert [fetched.tensor.op.name for fetched in s[out].prefetches] == ["more"]
    result = np.full((1, 64, 64), np.nan, np.float32)
    build([te.lower(s, [*positions, out], "product")], Target("cpu"), threads=2)["product"](x, w, more, result)
    expected = x[0].astype("float64") @ w[0].T + np.exp(more[0].astype("float64"))
    np.testing.assert_allclose(result, expected[None], rtol=1e-5, atol=1e-5)


def test_the_busiest_worker_counts() -> None:
    """Three shares on two workers cost what two shares of one cost, and a barrier."""
    target = Target(f"{SKYLAKE} -cores=2")
    product = ProductWorkload(12, 48, 64, panel=16)
    alone = blocking_cost(product, Blocking(16, 12), target, 1)
    shared = blocking_cost(product, Blocking(16, 12), target, 2)
    assert shared.arithmetic == pytest.approx(alone.arithmetic * 2 / 3)
    assert shared.fixed > alone.fixed * 2 / 3 + target.machine.barrier / 2


def test_a_product_is_shared_when_that_is_faster() -> None:
    target = Target(f"{SKYLAKE} -cores=2")
    large, small = ProductWorkload(64, 256, 256, panel=32), ProductWorkload(1, 32, 32, panel=16)
    assert worth_sharing(large, Blocking(32, 8), target) and not worth_sharing(small, Blocking(16, 1), target)


def test_the_second_level_cache_decides_on_blocks_of_rows() -> None:
    """An operand that a large cache holds passes by each panel as a whole."""
    product = ProductWorkload(512, 512, 512, panel=32)
    small, large = (DENSE.ranked(product, Target(f"{SKYLAKE} -cores=1 -l2={size << 20}")).default for size in (1, 8))
    assert 0 < small["block_tiles"] * small["tile_rows"] * 512 * 4 < 1 << 20
    assert large["block_tiles"] == 0


def test_weights_from_beyond_the_second_level_cache_are_prefetched() -> None:
    target = Target(f"{SKYLAKE} -cores=1")
    far, near = (DENSE.ranked(ProductWorkload(64, n, n, panel=32), target).default for n in (1024, 128))
    assert far["ahead"] > 0 and near["ahead"] == 0
    with_, without = (
        product_cost(ProductWorkload(64, 1024, 1024, panel=32), {**far, "ahead": ahead}, target) for ahead in (1, 0)
    )
    assert with_.cycles < without.cycles and with_.hidden > without.hidden


def test_a_core_that_looks_far_ahead_needs_no_prefetching_for_one_row() -> None:
    """512 instructions are over a hundred lines of weights of a single row, and few of a tile of many rows."""
    target = Target("llvm -mcpu=sapphirerapids -cores=1")
    row, rows = (DENSE.ranked(ProductWorkload(n, 1024, 1024, panel=32), target).default for n in (1, 64))
    assert row["ahead"] == 0 and rows["ahead"] == 1
    in_order = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -cores=1")
    assert DENSE.ranked(ProductWorkload(1, 1024, 1024, panel=8), in_order).default["ahead"] == 1


def test_panels_divide_the_columns_or_are_whole_vectors() -> None:
    target = Target(f"{SKYLAKE} -cores=1")
    for units in (1000, 768, 196, 49, 30, 7):
        assert units % dot_block(units, 256, 64, target) == 0
        assert dense_block(units, 256, 64, target) % 16 == 0
    assert dense_block(1000, 256, 1, target) % 16 == 8  # a row of memory is read as fast by half vectors
    assert dense_block(768, 256, 64, target) in (32, 48)
    assert dense_block(1024, 256, 1, target) >= 64  # four chains of multiply-adds hide each other's latency


def test_a_block_of_units_is_no_wider_than_its_gates_ask_for() -> None:
    target = Target(SKYLAKE)
    assert unit_block(256, 4, False, target) < unit_block(256, 1, False, target)
    assert unit_block(650, 4, False, target) == 16  # the only one that pads 650 to no more than 656


def test_steps_of_small_layers_are_not_shared() -> None:
    target = Target(f"{SKYLAKE} -cores=2")
    for units, shared in ((16, False), (512, True)):
        layer = RecurrentWorkload(10, 1, 1, units, 16, ((4, units),))
        costs = [recurrent_cost(layer, {"tile_rows": 1, "shared": choice}, target).cycles for choice in (0, 1)]
        assert (costs[1] < costs[0]) == shared


@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(512, 768, 256), (512, 1024, 256), (512, 256, 1024), (1024, 256, 512), (256, 1024, 512), (1576, 768, 192)],
)
def test_products_of_computed_matrices_keep_their_rows_in_the_first_level_cache(rows, columns, depth) -> None:
    workload = ProductWorkload(rows, columns, depth, constant=False)
    chosen = BATCH_MATMUL.ranked(workload, Target("cpu -mcpu=cascadelake")).default
    assert chosen["panel"] >= 2 * 16, chosen  # a broadcast for each multiply-add would be all that the ports do
    moved_apart = depth * 4 % 4096 == 0
    assert moved_apart or chosen["tile_rows"] <= 16 * 256 // depth, chosen
