"""The templates of matrix products: their workload, their search spaces and what a configuration costs."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import power_of_two_lanes, shape_of, terms_of
from tilewright.topi.schedule.cpu.conv2d_cost import direct_cost, direct_space
from tilewright.topi.schedule.cpu.conv2d_workload import workload_of
from tilewright.topi.schedule.cpu.cost import Cost
from tilewright.topi.schedule.cpu.dense import schedule_batch_matmul, schedule_dense
from tilewright.topi.schedule.cpu.dot_product import schedule_conv2d_dot, schedule_dense_dot
from tilewright.topi.schedule.cpu.space import Config, ConfigSpace
from tilewright.topi.schedule.cpu.template import Template
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Rows of a register tile of a matrix product, at most.
_PRODUCT_ROWS = 14

#: Widths of a panel of columns of a batch of products, in the order of preference.
_PANELS = (32, 48, 64, 16, 8)


@dataclass(frozen=True)
class ProductWorkload:
    """`batch` products of [rows, depth] with [depth, columns], in panels of `panel` columns (0: not packed)."""

    batch: int
    rows: int
    columns: int
    depth: int
    panel: int = 0


def dense_workload(dense: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """A product with packed panels; the width of a panel is in the layout of the weights."""
    *leading, columns = shape_of(out)
    return ProductWorkload(1, max(leading, default=1), columns, terms_of(dense), dense.op.attrs["block"])


def dense_dot_workload(dense: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """A product of bytes with packed panels."""
    *leading, columns = shape_of(out)
    rows = leading[dense.op.attrs["row_axis"]] if "row_axis" in dense.op.attrs else max(leading)
    return ProductWorkload(1, rows, columns, terms_of(dense), dense.op.attrs["block"])


def batch_matmul_workload(product: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """A batch of products, columns that are padded included."""
    batch, rows, columns = shape_of(product)
    return ProductWorkload(batch, rows, columns, terms_of(product))


def dense_space(workload: ProductWorkload, target: Target) -> ConfigSpace:
    """Rows of the register tile."""
    space = ConfigSpace()
    space.define_split("tile_rows", workload.rows, _PRODUCT_ROWS, exact=False)
    _require_fitting(space, workload, target)
    return space


def batch_matmul_space(workload: ProductWorkload, target: Target) -> ConfigSpace:
    """The width of the panels of columns, rows of the register tile."""
    panels = [panel for panel in _PANELS if workload.columns % panel == 0] or [min(workload.columns, 32)]
    space = ConfigSpace()
    space.define_knob("panel", panels)
    space.define_split("tile_rows", workload.rows, _PRODUCT_ROWS, exact=False)
    _require_fitting(space, workload, target)
    return space


def dense_dot_space(workload: ProductWorkload, target: Target) -> ConfigSpace:
    """Rows of the register tile of a product of bytes."""
    vectors = workload.panel // power_of_two_lanes(workload.panel, target)
    space = ConfigSpace()
    space.define_split("tile_rows", workload.rows, _PRODUCT_ROWS, exact=False)
    space.require(lambda c: tile.dot_fits(c["tile_rows"], vectors, target))
    _require_fitting(space, workload, target)
    return space


def conv2d_dot_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """A convolution of bytes, blocked by channels: as that of floats, where its sums fit."""
    vectors = workload.out_block // power_of_two_lanes(workload.out_block, target)
    space = direct_space(workload, target)
    space.require(lambda c: tile.dot_fits(c["tile_rows"] * c["tile_columns"], c["tile_blocks"] * vectors, target))
    return space


def product_cost(workload: ProductWorkload, config: Config, target: Target) -> Cost:
    """Arithmetic alone, by the share of the peak that the register tile reaches."""
    panel = config.get("panel", workload.panel)
    lanes = power_of_two_lanes(panel, target)
    share = max(tile.efficiency(config["tile_rows"], panel // lanes, workload.rows, target), 0.01)
    products = workload.batch * workload.rows * workload.columns * workload.depth
    return Cost(arithmetic=products / lanes / target.machine.fma_per_cycle / share)


def _require_fitting(space: ConfigSpace, workload: ProductWorkload, target: Target) -> None:
    """Only tiles that fit the registers, unless there are none."""

    def fits(config: Config) -> bool:
        panel = config.get("panel", workload.panel)
        return tile.fits(config["tile_rows"], panel // power_of_two_lanes(panel, target), target)

    if any(fits(config) for config in space):
        space.require(fits)


DENSE = Template("dense_pack", dense_workload, dense_space, product_cost, schedule_dense)
BATCH_MATMUL = Template("batch_matmul", batch_matmul_workload, batch_matmul_space, product_cost, schedule_batch_matmul)
DENSE_DOT = Template("dense_dot", dense_dot_workload, dense_dot_space, product_cost, schedule_dense_dot)
CONV2D_DOT = Template("conv2d_dot_NCHWc", workload_of, conv2d_dot_space, direct_cost, schedule_conv2d_dot)
