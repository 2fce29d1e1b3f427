"""Descriptions (see `through_relay`) of `topi` operators and references as v0.6 and v0.7 call them.

Each function takes Relay expressions in place of tensors; the other arguments are those of these versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.compat.relay.array_operators import resize2d, resize3d
from tilewright.compat.relay.convolutions import pads, spread
from tilewright.compat.relay.nn_operators import poolnd_python
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.named import named

#: What v0.7 and before call the ways to resize.
_METHODS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic", "nearest_neighbor": "nearest_neighbor"}


def coordinates(method: str, mode: Any) -> str:
    """The mode of coordinates: v0.6 says whether corners are aligned, and "nearest_neighbor" was asymmetric then."""
    if isinstance(mode, str):
        return mode
    if method == "nearest_neighbor":
        return "asymmetric"
    return "align_corners" if mode else "asymmetric"


def resize(
    data: Expr,
    size: Sequence[int],
    layout: str = "NCHW",
    method: str = "bilinear",
    coordinate_transformation_mode: Any = "half_pixel",
    out_dtype: str | None = None,
    *,
    align_corners: Any = None,
) -> Expr:
    """An image of another size; in v0.6 `align_corners` stands in place of the mode of coordinates."""
    mode = coordinate_transformation_mode if align_corners is None else bool(align_corners)
    method = method.lower()
    return resize2d(data, tuple(map(int, size)), layout, _METHODS[method], coordinates(method, mode))


def bilinear_resize_python(
    image: Expr, out_size: Sequence[int], layout: str, coordinate_transformation_mode: Any = "align_corners",
    *, align_corners: Any = None,
) -> Expr:  # fmt: skip
    """The reference of `resize` by linear interpolation."""
    mode = coordinate_transformation_mode if align_corners is None else bool(align_corners)
    return resize2d(image, tuple(map(int, out_size)), layout, "linear", coordinates("bilinear", mode))


def _scaled(data: Expr, scale: Sequence[float], layout: str) -> tuple[int, ...]:
    shape, letters = tensor_type_of(data).shape, [letter for letter in layout if letter in "DHW"]
    sizes = [int(shape[layout.index(letter)]) for letter in letters]
    return tuple(round(size * factor) for size, factor in zip(sizes, scale, strict=True))


def upsampling_python(data: Expr, scale: Sequence[float], layout: str = "NCHW") -> Expr:
    """Each element of an image repeated along rows and columns."""
    return resize2d(data, _scaled(data, scale, layout), layout, "nearest_neighbor", "asymmetric")


def upsampling3d_python(data: Expr, scale: Sequence[float], layout: str = "NCDHW") -> Expr:
    """Each element of a volume repeated along its three axes."""
    return resize3d(data, _scaled(data, scale, layout), layout, "nearest_neighbor", "asymmetric")


def _pooling(name: str, rank: int, doc: str) -> Any:
    def pool(
        np_data: Expr, kernel: Any, strides: Any, padding: Any, out_shape: Any, pool_type: str,
        count_include_pad: bool = True, ceil_mode: bool = False, dtype: str = "float32",
    ) -> Expr:  # fmt: skip
        window, steps = spread(kernel, rank), spread(strides, rank)
        around = pads(tuple(padding), window)
        positions = (window, steps, (1,) * rank, around[:rank], around[rank:])
        return poolnd_python(np_data, *positions, pool_type, count_include_pad, ceil_mode)

    return named(pool, name, doc)


pool1d_ncw_python = _pooling("pool1d_ncw_python", 1, "Pooling over windows of a row.")
pool3d_ncdhw_python = _pooling("pool3d_ncdhw_python", 3, "Pooling over windows of a volume.")
