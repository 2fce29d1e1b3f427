"""The tensor intrinsic of products of bytes: all sums of a register tile, by a function of its own.

Compilers of small processors keep a tile in registers where nothing else is alive beside it.
"""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.codegen.source.byte_tiles import tile_name
from tilewright.topi.nn.byte_conv import product
from tilewright.topi.reference.byte_conv import BYTES


@functools.cache
def tile_intrin(form: str, pixels: int, block: int, terms: int, steps: int) -> te.TensorIntrin:
    """c[p, l] = the sum of what the windows [pixels, terms] and the weights [terms, block] add.

    Of pairs windows are [pixels, terms, 2]; the loop over terms takes `steps` at a time.
    """
    sides = () if form == BYTES else (2,)
    dtype = "int8" if form == BYTES else "int32"
    data = te.placeholder((pixels, terms, *sides), dtype, name="data")
    weight = te.placeholder((terms, block), dtype, name="weight")
    axes = [te.reduce_axis((0, terms), "k"), *(te.reduce_axis((0, size), "side") for size in sides)]
    c = te.compute(
        (pixels, block),
        lambda p, lane: te.sum(product(data(p, *axes), weight(axes[0], lane), axes, form), axis=axes),
        name="tile",
    )
    name = tile_name(form, pixels, block, terms, steps)

    def statement(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        (windows, weights), (sums,) = ins, outs
        pointers = sums.access_ptr("w"), windows.access_ptr("r"), weights.access_ptr("r")
        return tir.Evaluate(tir.call_extern("int32", name, *pointers))

    return te.decl_tensor_intrin(c.op, statement, name=name)
