"""The search spaces of matrix products: with packed panels, of batches, of bytes."""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import power_of_two_lanes, shape_of
from tilewright.topi.schedule.cpu.space import Config, ConfigSpace

#: Rows of a register tile.
_PRODUCT_ROWS = 14

#: Widths of a panel of columns of a batch of products, in the order of preference.
_PANELS = (32, 48, 64, 16, 8)


def dense_space(dense: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A product with packed panels: rows of the register tile; the width of a panel is in the layout of the weights."""
    rows = max(shape_of(out)[:-1], default=1)
    panel = dense.op.attrs["block"]
    vectors = panel // power_of_two_lanes(panel, target)
    space = ConfigSpace()
    space.define_split("tile_rows", rows, _PRODUCT_ROWS, exact=False)
    _rank_rows(space, rows, {panel: vectors}, panel, target)
    return space


def batch_matmul_space(product: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A batch of products: the width of the panels of columns, rows of the register tile."""
    _, rows, columns = shape_of(out)
    panels = [panel for panel in _PANELS if columns % panel == 0] or [min(columns, 32)]
    space = ConfigSpace()
    space.define_knob("panel", panels)
    space.define_split("tile_rows", rows, _PRODUCT_ROWS, exact=False)
    vectors = {panel: panel // power_of_two_lanes(panel, target) for panel in panels}
    _rank_rows(space, rows, vectors, panels[0], target)
    return space


def _rank_rows(space: ConfigSpace, rows: int, vectors: dict[int, int], usual: int, target: Target) -> None:
    """Rank tiles of rows by panels; panels other than the usual one must be clearly better."""

    def share(config: Config) -> float:
        panel = config.get("panel", usual)
        fitted = tile.efficiency(config["tile_rows"], vectors[panel], rows, target)
        return fitted if panel == usual else 0.95 * fitted

    if any(share(config) > 0 for config in space):
        space.require(lambda c: share(c) > 0)
    space.rank_by(share, lambda c: c["tile_rows"])


def dense_dot_space(dense: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A product of bytes: rows of the register tile; the width of a panel is in the layout of the weights."""
    leading = shape_of(out)[:-1]
    rows = leading[dense.op.attrs["row_axis"]] if "row_axis" in dense.op.attrs else max(leading)
    panel = dense.op.attrs["block"]
    vectors = panel // power_of_two_lanes(panel, target)
    space = ConfigSpace()
    space.define_split("tile_rows", rows, _PRODUCT_ROWS, exact=False)
    space.require(lambda c: tile.dot_fits(c["tile_rows"], vectors, target))
    _rank_rows(space, rows, {panel: vectors}, panel, target)
    return space
