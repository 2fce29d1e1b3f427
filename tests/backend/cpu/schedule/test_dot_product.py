"""Dot products of bytes: the intrinsic on every kind of x86, loops that it does not fit, the templates."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright import build, te, topi
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.dot_intrin import dot_16x1x16_uint8_int8_int32, dot_intrin
from tilewright.codegen.llvm import emit_module
from tilewright.codegen.source.compile_c import find_compiler
from tilewright.errors import EnvironmentError_, ScheduleError
from tilewright.target import Target
from tilewright.topi.reference.layout import layout_transform

RNG = np.random.default_rng(4)

#: Target, lanes, and the instruction that does it: the plain one, pmaddwd on halves, or multiplications.
PROCESSORS = [
    ("llvm -mcpu=znver4", 16, "vpdpbusd.512"),
    ("llvm -mcpu=znver4", 8, "vpdpbusd.256"),
    ("llvm -mcpu=skylake-avx512", 16, "pmaddw.d.512"),
    ("llvm -mcpu=haswell", 8, "avx2.pmadd.wd"),
    ("llvm -mcpu=nehalem", 4, "sse2.pmadd.wd"),
    ("llvm -mcpu=haswell", 16, "mul <16 x i32>"),
]


def _bytes(dtype: str, *shape: int) -> np.ndarray:
    """Random bytes with the extremes often, which a saturating instruction would get wrong."""
    info = np.iinfo(dtype)
    values = RNG.integers(info.min, info.max + 1, shape)
    return np.where(RNG.random(shape) < 0.3, RNG.choice([info.min, info.max], shape), values).astype(dtype)


def _product(
    rows: int,
    panels: int,
    lanes: int,
    groups: int,
    data: str,
    weight: str,
    tile: int,
    intrin: te.TensorIntrin | None = None,
) -> tuple[te.Schedule, list[te.Tensor]]:
    """A product in tiles of rows by one vector, its inner loops tensorized; data are columns of a longer row."""
    a = te.placeholder((rows, 4 * groups + 12), data, name="A")
    w = te.placeholder((panels, groups, lanes, 4), weight, name="W")
    outer, inner = te.reduce_axis((0, groups), "outer"), te.reduce_axis((0, 4), "inner")

    def body(i: te.IterVar, p: te.IterVar, lane: te.IterVar) -> te.Tensor:
        value = a[i, outer * 4 + inner + 8].astype("int32")
        return te.sum(value * w[p, outer, lane, inner].astype("int32"), axis=[outer, inner])

    c = te.compute((rows, panels, lanes), body, name="C")
    s = te.create_schedule(c)
    i, p, lane = s[c].op.axis
    i_outer, i_inner = s[c].split(i, factor=tile)
    s[c].reorder(p, i_outer, outer, i_inner, lane, inner)
    s[c].tensorize(lane, intrin or dot_intrin(lanes, data, weight))
    return s, [a, w, c]


def _reference(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    panels, groups, lanes, _ = w.shape
    weights = w.transpose(0, 2, 1, 3).reshape(panels * lanes, 4 * groups).astype("int32")
    return (a[:, 8 : 8 + 4 * groups].astype("int32") @ weights.T).reshape(len(a), panels, lanes)


@pytest.mark.parametrize(("name", "lanes", "instruction"), PROCESSORS)
def test_every_processor_multiplies_exactly(name: str, lanes: int, instruction: str) -> None:
    target = Target(name)
    s, args = _product(6, 2, lanes, 5, "uint8", "int8", 3)
    func = te.lower(s, args)
    assert re.search(re.escape(instruction), emit_module([func], target).text)
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {name}")
    a, w = _bytes("uint8", 6, 32), _bytes("int8", 2, 5, lanes, 4)
    out = np.zeros((6, 2, lanes), "int32")
    build(func, target=target)["main"](a, w, out)
    np.testing.assert_array_equal(out, _reference(a, w))


@pytest.mark.parametrize(
    ("name", "lanes", "instruction"),
    [
        ("llvm -mcpu=skylake-avx512", 16, "avx512.pmaddubs.w.512"),
        ("llvm -mcpu=haswell", 8, "avx2.pmadd.ub.sw"),
        ("llvm -mcpu=nehalem", 4, "ssse3.pmadd.ub.sw"),
        ("llvm -mcpu=znver4", 16, "vpdpbusd.512"),
        ("llvm -mcpu=haswell", 16, "mul <16 x i32>"),
    ],
)
@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_weights_of_seven_bits_are_summed_in_pairs(name: str, lanes: int, instruction: str, data: str) -> None:
    target, weight = Target(name), "int8" if data == "uint8" else "uint8"
    s, args = _product(6, 2, lanes, 5, data, weight, 3, dot_intrin(lanes, data, weight, in_pairs=True))
    func = te.lower(s, args)
    assert instruction in emit_module([func], target).text
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {name}")
    a, w = _bytes(data, 6, 32), _bytes(weight, 2, 5, lanes, 4)
    if data == "uint8":
        w = np.where(w > 0, 64, -64).astype("int8")  # the largest that cannot saturate, of equal signs often
    else:
        a = np.where(a > 0, 64, -64).astype("int8")
    out = np.zeros((6, 2, lanes), "int32")
    build(func, target=target)["main"](a, w, out)
    np.testing.assert_array_equal(out, _reference(a, w))


def test_pairs_without_an_instruction_for_so_many_lanes() -> None:
    a, w = te.placeholder((2,), "int16", name="A"), te.placeholder((16, 2), "int8", name="W")
    k = te.reduce_axis((0, 2), "k")
    out = te.compute((16,), lambda i: te.sum(a[k].astype("int32") * w[i, k].astype("int32"), axis=k), name="C")
    s = te.create_schedule(out)
    s[out].tensorize(s[out].op.axis[0], dot_intrin(16, "int16", "int8"))
    func, target = te.lower(s, [a, w, out]), Target("llvm -mcpu=haswell")
    assert "mul <16 x i32>" in emit_module([func], target).text
    if not target.is_host:
        pytest.skip("this machine cannot run code for haswell")
    x, weight, result = np.array([-32768, 32767], "int16"), _bytes("int8", 16, 2), np.zeros(16, "int32")
    build(func, target=target)["main"](x, weight, result)
    np.testing.assert_array_equal(result, weight.astype("int32") @ x.astype("int32"))


@pytest.mark.parametrize(("data", "weight"), [("int8", "uint8"), ("int8", "int8"), ("uint8", "uint8")])
def test_bytes_of_any_sign(data: str, weight: str) -> None:
    s, args = _product(4, 1, 8, 3, data, weight, 2)
    a, w = _bytes(data, 4, 24), _bytes(weight, 1, 3, 8, 4)
    out = np.zeros((4, 1, 8), "int32")
    build(te.lower(s, args))["main"](a, w, out)
    np.testing.assert_array_equal(out, _reference(a, w))


def test_random_tilings_of_a_byte_product_are_exact() -> None:
    for _ in range(4):
        tile, tiles, panels, groups = (int(x) for x in RNG.integers(1, 6, 4))
        lanes = int(RNG.choice([4, 8, 16]))
        s, args = _product(tile * tiles, panels, lanes, groups, "uint8", "int8", tile)
        a, w = _bytes("uint8", tile * tiles, 4 * groups + 12), _bytes("int8", panels, groups, lanes, 4)
        out = np.zeros((tile * tiles, panels, lanes), "int32")
        build(te.lower(s, args))["main"](a, w, out)
        np.testing.assert_array_equal(out, _reference(a, w))


def test_languages_without_vectors_multiply_byte_by_byte() -> None:
    try:
        find_compiler()
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    s, args = _product(4, 1, 8, 3, "uint8", "int8", 2)
    func = te.lower(s, args)
    a, w = _bytes("uint8", 4, 24), _bytes("int8", 1, 3, 8, 4)
    out = np.zeros((4, 1, 8), "int32")
    build(func, target=Target("c"))["main"](a, w, out)
    np.testing.assert_array_equal(out, _reference(a, w))


def test_loops_that_do_something_else_are_refused() -> None:
    assert dot_16x1x16_uint8_int8_int32() is dot_16x1x16_uint8_int8_int32()
    s, args = _product(4, 1, 16, 3, "int8", "int8", 2, dot_16x1x16_uint8_int8_int32())
    with pytest.raises(ScheduleError, match="dot_16x1x16_uint8_int8_int32: the stage computes"):
        te.lower(s, args)
    s, args = _product(4, 1, 8, 3, "uint8", "int8", 2, dot_16x1x16_uint8_int8_int32())
    with pytest.raises(ScheduleError, match="runs 8 steps, the intrinsic has 16"):
        te.lower(s, args)


# ---------------------------------------------------------------------------------------------------- templates
@pytest.mark.parametrize("name", ["cpu", "llvm -mcpu=haswell"])
@pytest.mark.parametrize(("rows", "units", "depth", "block"), [(37, 96, 64, 32), (1, 40, 36, 40), (9, 24, 2048, 8)])
def test_a_dense_layer_of_bytes_is_exact_by_the_best_and_worst_configuration(
    name: str, rows: int, units: int, depth: int, block: int
) -> None:
    target = Target(name)
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {name}")
    a, w = (
        te.placeholder((rows, depth), "uint8", name="A"),
        te.placeholder((units // block, depth // 4, block, 4), "int8"),
    )
    out = topi.nn.dense_dot(a, w)
    x, weight = _bytes("uint8", rows, depth), _bytes("int8", units, depth)
    packed = layout_transform(weight, "NC", f"NC{block}n4c")
    configs = [config for _, config in space_of([out], target).ranked]
    for config in (configs[0], configs[-1]):
        result = np.zeros((rows, units), "int32")
        build(te.lower(schedule([out], target, config), [a, w, out]), target=target)["main"](x, packed, result)
        np.testing.assert_array_equal(result, x.astype("int32") @ weight.T.astype("int32"))


@pytest.mark.parametrize(
    ("name", "lanes", "instruction"),
    [
        ("llvm -mcpu=skylake-avx512", 16, "avx512.pmaddw.d.512"),
        ("llvm -mcpu=haswell", 8, "avx2.pmadd.wd"),
        ("llvm -mcpu=nehalem", 4, "sse2.pmadd.wd"),
        ("c", 8, ""),
    ],
)
def test_data_of_16_bits_meet_bytes_in_pairs(name: str, lanes: int, instruction: str) -> None:
    target = Target(name)
    if name == "c":
        try:
            find_compiler()
        except EnvironmentError_ as error:
            pytest.skip(str(error))
    a, w = te.placeholder((6, 20), "int16", name="A"), te.placeholder((2, 10, lanes, 2), "int8", name="W")
    out = topi.nn.dense_dot(a, w)
    func = te.lower(schedule([out], target), [a, w, out])
    if name != "c":
        assert instruction in emit_module([func], target).text
        if not target.is_host:
            pytest.skip(f"this machine cannot run code for {name}")
    x = RNG.choice(np.array([-32768, -255, 255, 32767], "int16"), (6, 20))
    weight = _bytes("int8", 2 * lanes, 20)
    result = np.zeros((6, 2 * lanes), "int32")
    build(func, target=target)["main"](x, layout_transform(weight, "NC", f"NC{lanes}n2c"), result)
    np.testing.assert_array_equal(result, x.astype("int32") @ weight.T.astype("int32"))


def _after_bytes(residual_first: bool) -> tuple[list[te.Tensor], te.Tensor]:
    """A product [37, 96] with a residual of bytes widened and added to its sums, on either side of these."""
    a, w = te.placeholder((37, 64), "uint8", name="A"), te.placeholder((3, 16, 32, 4), "int8", name="W")
    r = te.placeholder((37, 96), "int8", name="R")
    wide = te.compute((37, 96), lambda i, j: r[i, j].astype("int32"), name="wide", tag=topi.tag.ELEMWISE)
    centred = te.compute((37, 96), lambda i, j: wide[i, j] - 9, name="centred", tag=topi.tag.ELEMWISE)
    sums = topi.nn.dense_dot(a, w)
    left, right = (centred, sums) if residual_first else (sums, centred)
    out = te.compute((37, 96), lambda i, j: left[i, j] + right[i, j], name="out", tag=topi.tag.BROADCAST)
    return [a, w, r, out], out


@pytest.mark.parametrize("residual_first", [True, False])
def test_a_residual_is_computed_where_it_is_added(residual_first: bool) -> None:
    args, out = _after_bytes(residual_first)
    target = Target("cpu")
    func = te.lower(schedule([out], target), args)
    assert func.attrs["workspace_bytes"] == 0
    x, weight, rest = _bytes("uint8", 37, 64), _bytes("int8", 96, 64), _bytes("int8", 37, 96)
    result = np.zeros((37, 96), "int32")
    build(func, target=target)["main"](x, layout_transform(weight, "NC", "NC32n4c"), rest, result)
    np.testing.assert_array_equal(result, x.astype("int32") @ weight.T.astype("int32") + rest - 9)


@pytest.mark.parametrize(("name", "product"), [("icelake-server", "vpdpbusd"), ("sapphirerapids", "tdpbusd")])
def test_the_next_panel_of_constant_weights_is_prefetched(name: str, product: str) -> None:
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={name}")
    a, w = te.placeholder((64, 256), "uint8", name="A"), te.placeholder((12, 64, 32, 4), "int8", name="W")
    out = topi.nn.dense_dot(a, w)
    text = emit_module([te.lower(schedule([out], target), [a, w, out])], target).text
    assert product in text and "llvm.prefetch" in text
    b = te.placeholder((8, 4, 64, 32, 4), "int8", name="B")
    batched = topi.nn.batch_matmul_dot(te.placeholder((8, 64, 256), "uint8", name="A"), b)
    func = te.lower(schedule([batched], target), [*(t for t in batched.op.input_tensors[0].op.input_tensors), batched])
    assert "llvm.prefetch" not in emit_module([func], target).text
