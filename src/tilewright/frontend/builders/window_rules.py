"""Rules by which formats say how windows are padded and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.builders.windows import same_padding, window_count
from tilewright.frontend.graph_node import Labelled
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

Sizes = Sequence[Any]
#: Padding before and behind each spatial axis.
Edges = tuple[list[int], list[int]]


def known(node: Labelled, extents: Sizes, what: str) -> list[int]:
    """Extents that `what` depends on, which must be numbers."""
    if not all(isinstance(extent, int) for extent in extents):
        node.unsupported(f"{what} of symbolic dimensions; fix them with input_shapes")
    return list(extents)


def same_edges(
    node: Labelled, extents: Sizes, size: Sizes, strides: Sizes, dilation: Sizes, larger_first: bool = False
) -> Edges:
    """Padding that leaves ceil(extent / stride) windows, the larger half behind unless `larger_first`."""
    pairs = [same_padding(*axis) for axis in zip(known(node, extents, "padding SAME"), size, strides, dilation)]
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return (second, first) if larger_first else (first, second)


def counts_upwards(
    node: Labelled, extents: Sizes, size: Sizes, strides: Sizes, edges: Edges, inside: bool = False
) -> list[int]:
    """The windows of each axis, the last of which may reach behind the data (`window_count`)."""
    sizes = zip(known(node, extents, "windows counted upwards"), size, strides, *edges)
    return [window_count(*axis, True, inside=inside) for axis in sizes]


def transposed_sizes(extents: Sizes, size: Sizes, strides: Sizes, edges: Edges, dilation: Sizes) -> list[int]:
    """The extents of a transposed convolution's result."""
    sizes = zip(extents, size, strides, *edges, dilation)
    return [(extent - 1) * s + (k - 1) * d + 1 - before - behind for extent, k, s, before, behind, d in sizes]


def biased(made: Expr, bias: Expr | None) -> Expr:
    """[N, C, …] with a number added to each channel; None leaves out."""
    return made if bias is None else op.nn.bias_add(made, bias, axis=1)


def repeated_pixels(images: Expr, size: Sequence[Any]) -> Expr:
    """[N, C, H, W] in another size: of each pixel the one that stands at its fraction of the image."""
    return op.image.resize2d(
        images, size=tuple(size), method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )  # fmt: skip
