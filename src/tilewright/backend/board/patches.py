"""First layers computed band by band of rows, so that their large images never exist whole (MCUNet's patches).

Before: %1 = conv(%x, w1); conv(%1, w2)                                     (%x of 32 rows, windows of 3)
After:  concatenate((conv(conv(strided_slice(%x, rows 0:18), w1), w2),      (rows 0:16 of the result)
                     conv(conv(strided_slice(%x, rows 14:32), w1), w2)))    (rows 16:32)

Rows at the rim of a band are computed in both. Bands of a computed value are parts of its memory, and the results of
all bands lie end to end in that of the whole, so that nothing is copied but rows of the model's input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, Expr, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import consumers, post_order, rewrite
from tilewright.relay.transform.simplify.make import is_call

#: Numbers of bands that are tried.
_BANDS = (2, 3, 4, 6, 8, 12, 16, 24)


@dataclass(frozen=True)
class Patches:
    """The value that is computed in bands, by its number in the order of evaluation, and how many there are.

    `repeated` are the products that are computed more often than without bands, `products` all of the layers in them.
    """

    end: int
    bands: int
    repeated: int
    products: int


@dataclass(frozen=True)
class _Layers:
    """The nodes between a value `start`, which is whole, and `end`, in order of evaluation, the latter last."""

    start: Expr
    nodes: tuple[Expr, ...]


def patches(mod: IRModule, chosen: Patches) -> IRModule:
    """Compute the chosen value of `main` in bands; see the module's docstring."""
    mod = infer_type(mod)
    end = post_order(mod["main"].body)[chosen.end]
    layers = _layers(end)
    assert layers is not None
    parts = [_band(layers, low, high) for low, high in _bands(_rows(end), chosen.bands)]
    whole = op.concatenate(parts, axis=1)
    body = rewrite(mod["main"].body, lambda node: whole if node is end else None)
    return infer_type(mod.with_function("main", mod["main"].with_body(body)))


def possible_patches(mod: IRModule) -> Iterator[Patches]:
    """All patches of `main` from its input on, those with the fewest products computed again first."""
    nodes = post_order(infer_type(mod)["main"].body)
    users = consumers(nodes)
    found = []
    for number, end in enumerate(nodes):
        layers = _layers(end) if _is_stored(end, users) else None
        if layers is None or not _stays_inside(layers, users):
            continue
        products = sum(_products_of_row(node) * _rows(node) for node in layers.nodes)
        for count in _BANDS:
            if 2 * count > _rows(end):
                break
            made = 0
            for low, high in _bands(_rows(end), count):
                needed = _needed(layers, low, high)
                made += sum(_products_of_row(node) * (b - a) for node, (a, b) in needed.items())
            found.append(Patches(number, count, made - products, products))
    yield from sorted(found, key=lambda one: (one.repeated, one.bands, one.end))


def _is_image(node: Expr) -> bool:
    """True for an image [1, H, W, C] of more than one row."""
    type_ = type_of(node)
    return (
        isinstance(type_, TensorType) and type_.is_static and type_.ndim == 4 and type_.shape[0] == 1 < type_.shape[1]
    )


def _is_stored(node: Expr, users: Mapping[Expr, list[Expr]]) -> bool:
    """True for an image of bytes that a convolution made and that its users read from memory."""
    if not isinstance(node, Call) or not _is_image(node) or tensor_type_of(node).dtype.itemsize != 1:
        return False
    return len(users[node]) > 1 or any(_reads_memory(user, users) for user in users[node])


def _reads_memory(node: Expr, users: Mapping[Expr, list[Expr]]) -> bool:
    """False if a node is elementwise, and so are those that read it, up to where bytes are stored."""
    while _is_elementwise(node) and tensor_type_of(node).dtype.itemsize != 1:
        if len(users[node]) != 1:
            return True
        (node,) = users[node]
    return not _is_elementwise(node)


def _is_elementwise(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.pattern <= OpPattern.BROADCAST


def _layers(end: Expr) -> _Layers | None:
    """The layers from the one input of `main` to `end`; None where some do not go row by row."""
    starts: list[Expr] = []
    nodes = [node for node in post_order(end) if not isinstance(node, Constant | Op)]
    for node in nodes:
        if isinstance(node, Var):
            starts.append(node)
        elif not isinstance(node, Call) or not _goes_by_rows(node):
            return None
    if len(starts) != 1 or not _is_image(starts[0]) or not any(_is_convolution(node) for node in nodes):
        return None
    return _Layers(starts[0], tuple(node for node in nodes if node is not starts[0]))


def _is_convolution(node: Expr) -> bool:
    return is_call(node, "nn.contrib_conv2d_bytes", "nn.contrib_depthwise_bytes")


def _goes_by_rows(node: Call) -> bool:
    """True for a convolution of bytes, and for elementwise calls whose other operands are the same for all rows."""
    if not _is_image(node):
        return False
    if _is_convolution(node):
        return not isinstance(node.args[0], Constant)
    return _is_elementwise(node) and all(
        _same_for_all_rows(arg)
        if isinstance(arg, Constant)
        else tensor_type_of(arg).shape == tensor_type_of(node).shape
        for arg in node.args
    )


def _same_for_all_rows(value: Constant) -> bool:
    shape = value.data.shape
    return len(shape) < 3 or shape[-3] == 1


def _stays_inside(layers: _Layers, users: Mapping[Expr, list[Expr]]) -> bool:
    """True if nothing but the last value is read outside of the layers."""
    inside = set(layers.nodes)
    return all(user in inside for node in layers.nodes[:-1] for user in users[node])


def _rows(node: Expr) -> int:
    return int(tensor_type_of(node).shape[1])


def _bands(rows: int, count: int) -> list[tuple[int, int]]:
    """Equal bands, of which the last may be shorter."""
    height = -(-rows // count)
    return [(low, min(low + height, rows)) for low in range(0, rows, height)]


def _window(node: Call) -> tuple[int, int, int]:
    """The rows of a convolution's window, its stride, and the rows that stand above the image."""
    if is_call(node, "nn.contrib_depthwise_bytes"):
        return int(tensor_type_of(node.args[1]).shape[0]), node.attrs["strides"][0], node.attrs["padding"][0]
    return node.attrs["kernel_size"][0], node.attrs["strides"][0], node.attrs["padding"][0]


def _read(node: Call, low: int, high: int) -> tuple[int, int]:
    """The rows that rows `low` to `high` of a convolution read, some of which may lie outside of the image."""
    kernel, stride, top = _window(node)
    return low * stride - top, (high - 1) * stride - top + kernel


def _needed(layers: _Layers, low: int, high: int) -> dict[Expr, tuple[int, int]]:
    """The rows of each value that rows `low` to `high` of the last one need."""
    found = {layers.nodes[-1]: (low, high)}
    for node in reversed(layers.nodes):
        assert isinstance(node, Call)
        low, high = found[node]
        inputs = node.args[:1] if _is_convolution(node) else node.args
        for data in inputs:
            if isinstance(data, Constant):
                continue
            first, last = _read(node, low, high) if _is_convolution(node) else (low, high)
            first, last = max(first, 0), min(last, _rows(data))
            a, b = found.get(data, (first, last))
            found[data] = min(a, first), max(b, last)
    return found


def _products_of_row(node: Expr) -> int:
    """The products of a row of a convolution; 0 of anything else."""
    if not _is_convolution(node):
        return 0
    assert isinstance(node, Call) and isinstance(node.op, Op) and node.op.flops is not None
    types = [tensor_type_of(arg) for arg in node.args]
    return int(node.op.flops(node.attrs, types, tensor_type_of(node))) // 2 // _rows(node)


def _band(layers: _Layers, low: int, high: int) -> Expr:
    """Rows `low` to `high` of the last value."""
    needed = _needed(layers, low, high)
    made: dict[Expr, Expr] = {layers.start: _sliced(layers.start, (0, _rows(layers.start)), *needed[layers.start])}

    def part(node: Expr, first: int, last: int) -> Expr:
        return node if isinstance(node, Constant) else _sliced(made[node], needed[node], first, last)

    for node in layers.nodes:
        assert isinstance(node, Call)
        first, last = needed[node]
        if not _is_convolution(node):
            made[node] = Call(node.op, tuple(part(arg, first, last) for arg in node.args), node.attrs, node.span)
            continue
        top, bottom = _read(node, first, last)
        data, rows = node.args[0], _rows(node.args[0])
        _, left, _, right = node.attrs["padding"]
        around = max(-top, 0), left, max(bottom - rows, 0), right
        read = part(data, max(top, 0), min(bottom, rows))
        made[node] = Call(node.op, (read, *node.args[1:]), node.attrs.replace(padding=around), node.span)
    return made[layers.nodes[-1]]


def _sliced(value: Expr, has: tuple[int, int], low: int, high: int) -> Expr:
    """Rows `low` to `high` of a value that is made of the rows `has`."""
    if has == (low, high):
        return value
    return op.strided_slice(value, (low - has[0],), (high - has[0],), (1,), (1,))
