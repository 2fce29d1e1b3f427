"""Relay operators whose classic arguments say what types say too, such as `units`, or name another order of axes.

What is stated must be what the arguments have; operators that know images by channels first get them transposed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from tilewright import relay
from tilewright.compat.tables.signatures import by_classic_parameters
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.type_of import type_of
from tilewright.support.named import named
from tilewright.topi.util import pair, sides


def _check(what: str, stated: Any, tensor: relay.Expr, axes: Sequence[int]) -> None:
    """Raise `InputError` where `stated` is not the size of `tensor` along `axes`."""
    if stated is None:
        return
    kind = type_of(tensor)
    if not isinstance(kind, relay.TensorType):
        raise UnsupportedError(f"{what} = {stated}: annotate the weight with a type, or leave it out")
    sizes = tuple(kind.shape[axis] for axis in axes)
    wanted = tuple(stated) if isinstance(stated, tuple | list) else (stated,) * len(axes)
    if any(int(a) != int(b) for a, b in zip(wanted, sizes, strict=True) if not isinstance(b, relay.Any)):
        raise InputError(f"{what} is {stated}, but the weight has {sizes if len(sizes) > 1 else sizes[0]}")


def matmul(
    tensor_a: relay.Expr,
    tensor_b: relay.Expr,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> relay.Call:
    """The product of two matrices, or of [..., M, K] and a matrix, either transposed first; `units` counts columns."""
    kind = type_of(tensor_a)
    if _is_open(tensor_b) and units is not None and isinstance(kind, relay.TensorType):
        depth = kind.shape[-2 if transpose_a else -1]
        shape = (units, depth) if transpose_b else (depth, units)
        tensor_b.set_inferred_type(relay.TensorType(shape, kind.dtype))
    _check("matmul: units", units, tensor_b, [0 if transpose_b else 1])
    rank = len(kind.shape) if isinstance(kind, relay.TensorType) else 2
    if rank == 2:
        return op.nn.matmul(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b)
    rows = op.transpose(tensor_a, [*range(rank - 2), rank - 1, rank - 2]) if transpose_a else tensor_a
    return op.nn.dense(rows, tensor_b if transpose_b else op.transpose(tensor_b), units, out_dtype)


@by_classic_parameters("tvm.relay.nn.bitserial_dense")
def bitserial_dense(weight: relay.Expr, units: int | None, pack_dtype: str, **more: Any) -> relay.Call:
    """`dense` of integers of a few bits, which are packed as suits the kernel; `units` is how many columns it has."""
    _check("bitserial_dense: units", units, weight, [0])
    return op.nn.bitserial_dense(weight=weight, **more)


def of_channels(build: Callable[..., relay.Expr]) -> Any:
    """A convolution's builder that takes depthwise kernels as [C, M, KH, KW], too: M results come of each channel."""
    signature = inspect.signature(build)
    _, weight = list(signature.parameters)[:2]

    @functools.wraps(build)
    def conv2d(*args: Any, **options: Any) -> relay.Expr:
        given = signature.bind(*args, **options).arguments
        groups, shape = given.get("groups", 1), _stated_shape(given[weight])
        by_channel = groups > 1 and given.get("kernel_layout", "OIHW") == "OIHW" and len(shape) == 4
        if by_channel and shape[0] == groups and given.get("channels") == groups * shape[1]:
            given[weight] = op.reshape(given[weight], (-1, 1, *shape[2:]))
        return build(**given)

    return conv2d


conv2d = of_channels(op.nn.conv2d)


def _stated_shape(weight: relay.Expr) -> tuple[Any, ...]:
    """The shape of a variable or constant; () where it is not known."""
    if isinstance(weight, relay.Constant):
        return tuple(weight.data.shape)
    kind = weight.type_annotation if isinstance(weight, relay.Var) else None
    return tuple(kind.shape) if isinstance(kind, relay.TensorType) else ()


@by_classic_parameters("tvm.relay.nn.deformable_conv2d")
def deformable_conv2d(
    data: relay.Expr, offset: relay.Expr, weight: relay.Expr, channels: int | None, kernel_size: Any, **more: Any
) -> relay.Expr:
    """A convolution whose taps are moved by `offset`, of images in NCHW or NHWC."""
    data_layout, kernel_layout, out_layout, out_dtype = (
        more.pop(name) for name in ("data_layout", "kernel_layout", "out_layout", "out_dtype")
    )
    if out_layout not in ("", data_layout) or sorted(kernel_layout) != sorted("OIHW"):
        raise UnsupportedError(f"deformable_conv2d of {data_layout} by {kernel_layout} to {out_layout}")
    _settle_kernel(data, weight, (channels, kernel_size, more["groups"]), (data_layout, kernel_layout))
    _settle_offset(data, offset, weight, more, (data_layout, kernel_layout))
    _check("deformable_conv2d: channels", channels, weight, [kernel_layout.index("O")])
    _check("deformable_conv2d: kernel_size", kernel_size, weight, [kernel_layout.index("H"), kernel_layout.index("W")])
    data, offset = (_ordered(one, data_layout, "NCHW") for one in (data, offset))
    weight = _ordered(weight, kernel_layout, "OIHW")
    made: relay.Expr = op.nn.deformable_conv2d(data, offset, weight, **more)
    made = op.cast(made, out_dtype) if out_dtype else made
    return _ordered(made, "NCHW", data_layout)


def _is_open(value: relay.Expr) -> TypeGuard[relay.Var]:
    untyped = isinstance(value, relay.Var) and isinstance(value.type_annotation, relay.IncompleteType | None)
    return untyped and value.inferred_type is None


def _settle_kernel(data: relay.Expr, weight: relay.Expr, sizes: tuple[Any, Any, int], layouts: tuple[str, str]) -> None:
    """Type a kernel that is an untyped variable by the stated `sizes` (channels, kernel, groups)."""
    channels, kernel_size, groups = sizes
    if not _is_open(weight) or channels is None or kernel_size is None:
        return
    image = type_of(data)
    assert isinstance(image, relay.TensorType)
    rows, columns = kernel_size if isinstance(kernel_size, tuple | list) else (kernel_size, kernel_size)
    found = {"O": channels, "I": image.shape[layouts[0].index("C")] // groups, "H": rows, "W": columns}
    weight.set_inferred_type(relay.TensorType([found[letter] for letter in layouts[1]], image.dtype))


def _settle_offset(
    data: relay.Expr,
    offset: relay.Expr,
    weight: relay.Expr,
    window: Mapping[str, Any],
    layouts: tuple[str, str],
) -> None:
    """Type offsets that are an untyped variable: two numbers for each tap of each window."""
    if not _is_open(offset) or _is_open(weight):
        return
    image, kernel = type_of(data), type_of(weight)
    assert isinstance(image, relay.TensorType) and isinstance(kernel, relay.TensorType)
    strides, dilation, count = pair(window["strides"]), pair(window["dilation"]), window["deformable_groups"]
    around = sides(window["padding"], 2)
    extents = [kernel.shape[layouts[1].index(letter)] for letter in "HW"]
    found = {"N": image.shape[layouts[0].index("N")], "C": 2 * count * extents[0] * extents[1]}
    for axis, letter in enumerate("HW"):
        reach = (extents[axis] - 1) * dilation[axis] + 1
        whole = image.shape[layouts[0].index(letter)] + around[axis] + around[axis + 2]
        found[letter] = (whole - reach) // strides[axis] + 1
    offset.set_inferred_type(relay.TensorType([found[letter] for letter in layouts[0]], image.dtype))


def _ordered(tensor: relay.Expr, given: str, wanted: str) -> relay.Expr:
    """`tensor` with its axes in the order `wanted` rather than `given`."""
    if sorted(given) != sorted(wanted):
        raise UnsupportedError(f"the layout {given!r} here: an order of the axes {wanted} is taken")
    return tensor if given == wanted else op.transpose(tensor, [given.index(letter) for letter in wanted])


def _of_images(own: Callable[..., relay.Expr], kernel: str = "") -> Any:
    """`own`, an operator on images in NCHW (and a kernel in `kernel`), of images in `layout`, NCHW or NHWC, too.

    With a kernel the layouts are called `data_layout` and `kernel_layout`. The result is of `out_dtype`, if given.
    """
    name, kind = "data_layout" if kernel else "layout", inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = list(inspect.signature(own).parameters.values())
    if name not in inspect.signature(own).parameters:
        needed = sum(one.default is one.empty for one in parameters)
        parameters.insert(needed, inspect.Parameter(name, kind, default="NCHW"))
    signature = inspect.Signature([*parameters, inspect.Parameter("out_dtype", kind, default=None)])

    def build(*args: Any, **options: Any) -> relay.Expr:
        given = signature.bind(*args, **options).arguments
        layout, out_dtype = given.pop(name, "NCHW"), given.pop("out_dtype", None)
        given["data"] = _ordered(given["data"], layout, "NCHW")
        if kernel:
            given["weight"] = _ordered(given["weight"], given.pop("kernel_layout", kernel), kernel)
        made = own(**given)
        return _ordered(op.cast(made, out_dtype) if out_dtype else made, "NCHW", layout)

    build.__signature__ = signature  # type: ignore[attr-defined]
    return named(build, own.__name__, own.__doc__)


dilation2d, crop_and_resize = _of_images(op.image.dilation2d, "IHW"), _of_images(op.image.crop_and_resize)
roi_align = _of_images(op.vision.roi_align)
depth_to_space, space_to_depth = _of_images(op.nn.depth_to_space), _of_images(op.nn.space_to_depth)
