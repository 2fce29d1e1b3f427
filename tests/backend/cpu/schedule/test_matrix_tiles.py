"""Products in matrix registers (AMX) and of pairs of bfloat16: the intrinsics, the templates, the choice."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright import build, te, topi
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.dot_intrin import dot_intrin
from tilewright.backend.cpu.schedule.product_spaces import pair_shape
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.backend.cpu.schedule.tile_intrin import tile_intrin
from tilewright.codegen.llvm import emit_module
from tilewright.codegen.source.compile_c import find_compiler
from tilewright.errors import EnvironmentError_
from tilewright.target import Target
from tilewright.tir.dot_product import SUMS
from tilewright.tir.matrix_tiles import PRODUCTS
from tilewright.topi.reference.layout import layout_transform

RNG = np.random.default_rng(16)
AMX = Target("llvm -mcpu=sapphirerapids")
#: Half an ulp of float32, relative.
ROUNDING = 2.0**-24


def _values(dtype: str, *shape: int) -> np.ndarray:
    if dtype == "bfloat16":
        return RNG.standard_normal(shape).astype(ml_dtypes.bfloat16)
    info = np.iinfo(dtype)
    return np.where(RNG.random(shape) < 0.3, info.min, RNG.integers(info.min, info.max + 1, shape)).astype(dtype)


def _needs(target: Target) -> None:
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {target.cpu}")


def _assert_sums(found: np.ndarray, x: np.ndarray, w: np.ndarray) -> None:
    """`found` is x @ w.T: exactly for integers, else each of as many sums rounded once."""
    x, w = x.astype("float64"), w.astype("float64")
    bound = 0.0 if found.dtype == np.int32 else (x.shape[1] + 1) * ROUNDING
    np.testing.assert_array_less(np.abs(found - x @ w.T) - bound * (np.abs(x) @ np.abs(w).T), 1e-30)


@pytest.mark.parametrize(
    ("name", "lanes", "instruction"),
    [
        ("llvm -mcpu=znver4", 16, "dpbf16ps.512"),
        ("llvm -mcpu=znver4", 8, "dpbf16ps.256"),
        ("llvm -mcpu=icelake-server", 16, "fma.v16f32"),
        ("llvm -mcpu=haswell", 8, "fma.v8f32"),
        ("llvm -mcpu=nehalem", 4, "fmuladd.v4f32"),
        ("c", 8, ""),
    ],
)
def test_pairs_of_bfloat16(name: str, lanes: int, instruction: str) -> None:
    target, rows, groups = Target(name), 4, 5
    a = te.placeholder((rows, 2 * groups), "bfloat16")
    w = te.placeholder((groups, lanes, 2), "bfloat16")
    outer, inner = te.reduce_axis((0, groups)), te.reduce_axis((0, 2))
    c = te.compute(
        (rows, lanes),
        lambda i, j: te.sum(
            a[i, outer * 2 + inner].astype("float32") * w[outer, j, inner].astype("float32"), axis=[outer, inner]
        ),
    )
    s = te.create_schedule(c)
    s[c].reorder(s[c].op.axis[0], outer, s[c].op.axis[1], inner)
    s[c].tensorize(s[c].op.axis[1], dot_intrin(lanes, "bfloat16", "bfloat16"))
    func = te.lower(s, [a, w, c])
    if name == "c":
        try:
            find_compiler()
        except EnvironmentError_ as error:
            pytest.skip(str(error))
    else:
        assert instruction in emit_module([func], target).text
        _needs(target)
    x, weight = _values("bfloat16", rows, 2 * groups), _values("bfloat16", lanes, 2 * groups)
    out = np.zeros((rows, lanes), "float32")
    build(func, target=target)["main"](x, layout_transform(weight, "NC", f"NC{lanes}n2c")[0], out)
    _assert_sums(out, x, weight)


@pytest.mark.parametrize(("data", "weight"), PRODUCTS)
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (14, 32), (1, 16)])
def test_a_tile_in_matrix_registers(data: str, weight: str, rows: int, columns: int) -> None:
    size, sums = SUMS[data]
    depth, tiles = 128 // np.dtype(_values(data, 1).dtype).itemsize, 3
    a = te.placeholder((tiles * rows, depth + 16), data)
    w = te.placeholder((depth // size, columns, size), weight)
    outer, inner = te.reduce_axis((0, depth // size)), te.reduce_axis((0, size))
    c = te.compute(
        (tiles * rows, columns),
        lambda i, j: te.sum(
            a[i, outer * size + inner].astype(sums) * w[outer, j, inner].astype(sums), axis=[outer, inner]
        ),
    )
    s = te.create_schedule(c)
    tile, row = s[c].split(s[c].op.axis[0], factor=rows)
    s[c].reorder(tile, row, s[c].op.axis[1], outer, inner)
    s[c].tensorize(row, tile_intrin(rows, columns, depth, data, weight))
    func = te.lower(s, [a, w, c])
    assert PRODUCTS[data, weight] in emit_module([func], AMX).text
    _needs(AMX)
    x, weights = _values(data, tiles * rows, depth + 16), _values(weight, columns, depth)
    out = np.zeros((tiles * rows, columns), sums)
    packed = layout_transform(weights, "NC", f"NC{columns}n{size}c")[0]
    build(func, target=AMX)["main"](x, packed, out)
    _assert_sums(out, x[:, :depth], weights)


@pytest.mark.parametrize("name", ["sapphirerapids", "znver4"])
@pytest.mark.parametrize(
    ("rows", "leading", "units"), [(64, (), 64), (48, (2, 20), 50), (1, (1, 1), 33), (49, (1, 49), 32)]
)
def test_products_of_bfloat16_with_fewer_rows_and_columns(
    name: str, rows: int, leading: tuple[int, ...], units: int
) -> None:
    """The first and the last configuration of a product whose rows and columns are filled up."""
    target, depth, block = Target(f"llvm -mcpu={name} -cores=2"), 96, 32
    a = te.placeholder((rows, depth), "bfloat16")
    w = te.placeholder((-(-units // block), depth // 2, block, 2), "bfloat16")
    product = topi.nn.dense_dot(a, w, leading=leading, units=units)
    out = te.compute(product.shape, lambda *i: product(*i) * 2)
    ranked = [config for _, config in space_of([out], target).ranked]
    assert any(config.get("matrix", 0) for config in ranked) is (name == "sapphirerapids")
    _needs(target)
    x, weight = _values("bfloat16", rows, depth), _values("bfloat16", -(-units // block) * block, depth)
    for config in (ranked[0], ranked[-1]):
        result = np.zeros((*(leading or (rows,)), units), "float32")
        func = te.lower(schedule([out], target, config), [a, w, out])
        build(func, target=target, threads=2)["main"](x, layout_transform(weight, "NC", f"NC{block}n2c"), result)
        found = result.reshape(-1, units)
        _assert_sums(found / 2, x[: len(found)], weight[:units])


@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_take_matrix_registers_where_they_fill_them(batch: int) -> None:
    target = Target("llvm -mcpu=sapphirerapids -cores=1")
    a, w = te.placeholder((batch, 64, 128), "uint8"), te.placeholder((2, 32, 32, 4), "int8")
    out = topi.nn.dense_dot(a, w)
    assert space_of([out], target).default["matrix"]
    _needs(target)
    x, weight, result = _values("uint8", batch, 64, 128), _values("int8", 64, 128), np.zeros((batch, 64, 64), "int32")
    func = te.lower(schedule([out], target), [a, w, out])
    build(func, target=target)["main"](x, layout_transform(weight, "NC", "NC32n4c"), result)
    np.testing.assert_array_equal(result, x.astype("int32") @ weight.T.astype("int32"))


def test_the_choice_rests_on_the_processor() -> None:
    """Only matrix registers are worth rounding for with a vdpbf16ps a quarter as fast as a multiply-add."""
    zen, intel = Target("llvm -mcpu=znver4"), Target("llvm -mcpu=sapphirerapids -mattr=-amx-tile,-amx-bf16,-amx-int8")
    assert pair_shape(1024, 1024, 1024, intel) is None
    vectors, tiles = pair_shape(1024, 1000, 1021, zen), pair_shape(1024, 1000, 1021, AMX)
    assert vectors is not None and (vectors.rows, vectors.depth) == (1021, 1000)
    assert tiles is not None and (tiles.rows, tiles.depth) == (1024, 1024) and tiles.block == 32
    odd = pair_shape(1024, 1024, 197, AMX)
    assert odd is not None and odd.rows == 197
    assert [multiplies_tiles(2, target) for target in (zen, intel, AMX)] == [False, False, True]
