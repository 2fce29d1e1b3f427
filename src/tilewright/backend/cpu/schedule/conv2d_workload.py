"""The facts of two-dimensional convolutions (`Conv2DWorkload`), read off their computations."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.pad import is_pad
from tilewright.tir.expr import Call, Div, IntImm
from tilewright.tir.size_hint import size_hint
from tilewright.tir.visitor import collect
from tilewright.topi.schedule.stages import extent_of, operands_of, shape_of
from tilewright.topi.schedule.workload import Conv2DWorkload


def workload_of(conv: te.Tensor, out: te.Tensor) -> Conv2DWorkload:
    """The facts of the convolution `conv` (any tag but those of Winograd and transposed ones) with its epilogue `out`.

    Where it is a product over the pixels of channel blocks (`conv` is [N, O/b, pixels, b]) they are one row.
    """
    attrs = conv.op.attrs
    data, kernel = operands_of(conv)
    source = data.op.input_tensors[0] if is_pad(data) else data
    result, image = shape_of(out), shape_of(source)
    in_block, out_block = (shape[4] if len(shape) == 5 else 1 for shape in (image, result))
    height, width = (1, shape_of(conv)[2]) if len(conv.shape) == 4 < len(result) else result[2:4]
    symbolic = not isinstance(out.shape[3], IntImm)
    rows, columns = (height, width) if height < result[2] and math.prod(image[2:4]) == width else image[2:4]
    return Conv2DWorkload(
        result[0],
        image[1] * in_block,
        result[1] * out_block,
        rows,
        columns,
        height,
        width,
        in_block,
        out_block,
        (shape_of(kernel)[2], shape_of(kernel)[3]),
        attrs["strides"],
        attrs["dilation"],
        attrs["groups"],
        is_pad(data),
        *_epilogue(conv, out),
        widths=tuple(range(max(1, width // 2), 3 * width, max(1, width // 8))) if symbolic else (),
        hint_columns=1 << (size_hint(out.shape[3]).bit_length() - 1) if symbolic and attrs["strides"][1] > 1 else 0,
        joined=attrs.get("joined", 1),
    )


def winograd_workload(conv: te.Tensor, out: te.Tensor) -> Conv2DWorkload:
    """The facts of a Winograd convolution, whose last stage is `conv`, with its epilogue `out`."""
    attrs = conv.op.attrs
    (output_rows,) = conv.op.input_tensors
    (product,) = output_rows.op.input_tensors
    batch, _, height, width, block = shape_of(out)
    tiles = shape_of(product.op.input_tensors[0])
    symbolic = not all(isinstance(extent, IntImm) for extent in product.shape)
    strides = attrs["strides"]
    other_inputs, epilogue = _epilogue(conv, out)
    return Conv2DWorkload(
        batch if isinstance(product.shape[0], IntImm) else 1,
        tiles[1] * tiles[-1],
        shape_of(out)[1] * block,
        height * strides[0],
        width * strides[1],
        height,
        width,
        tiles[-1],
        block,
        attrs["kernel_size"],
        strides,
        other_inputs=other_inputs,
        epilogue=epilogue,
        tile_size=attrs["m"],
        group=attrs["group"] if symbolic else None,
    )


def transposed_workload(conv: te.Tensor, out: te.Tensor) -> Conv2DWorkload:
    """A transposed convolution as the convolutions that its phases are, one image of the batch each.

    `conv` is [N, O/b, rows, row phases, column phases, columns, b] or the same without blocks.
    """
    data, kernel = operands_of(conv)
    result, image, taps = (
        shape_of(out),
        shape_of(data),
        [axis for axis in conv.op.reduce_axis if axis.var.name[0] == "j"],
    )
    rows, row_phases, column_phases, columns = shape_of(conv)[2:6]
    other_inputs, epilogue = _epilogue(conv, out)
    in_block, out_block = (shape[4] if len(shape) == 5 else 1 for shape in (image, result))
    return Conv2DWorkload(
        result[0] * row_phases * column_phases,
        image[1] * in_block,
        result[1] * out_block,
        image[2],
        image[3],
        rows,
        columns,
        in_block,
        out_block,
        (extent_of(taps[0]), extent_of(taps[1])),
        groups=conv.op.attrs["groups"],
        padded=is_pad(data) or is_pad(kernel),
        other_inputs=other_inputs,
        epilogue=epilogue,
        phases=row_phases * column_phases,
    )


def _epilogue(conv: te.Tensor, out: te.Tensor) -> tuple[int, tuple[int, int]]:
    """Tensors as large as `out` that its epilogue reads beside `conv`; its functions and divisions for one element."""
    size, seen, images, functions, divisions = math.prod(shape_of(out)), {conv.op}, 0, 0, 0
    work = [out]
    while work:
        tensor = work.pop()
        if tensor.op in seen:
            continue
        seen.add(tensor.op)
        if isinstance(tensor.op, te.PlaceholderOp):
            images += math.prod(shape_of(tensor)) == size
        else:
            work += tensor.op.input_tensors
            for body in tensor.op.body if isinstance(tensor.op, te.ComputeOp) else ():
                functions += len(collect(body, Call))
                divisions += len(collect(body, Div))
    return images, (functions, divisions)
