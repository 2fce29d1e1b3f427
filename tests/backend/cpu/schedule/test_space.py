"""Search spaces: knobs, rankings and errors; every configuration of a template computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import TARGET, placeholders, run, sample
from tilewright import te, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.conv2d import CONV2D, CONV2D_TRANSPOSE
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of, template_of
from tilewright.backend.cpu.schedule.layout import conv2d_layouts
from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.backend.cpu.schedule.winograd import CONV2D_WINOGRAD
from tilewright.errors import ScheduleError
from tilewright.target import Target
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload

ZEN4 = Target("llvm -mcpu=znver4 -cores=2")


def example() -> ConfigSpace:
    space = ConfigSpace()
    space.define_split("rows", 56, limit=8)
    space.define_knob("vectors", (1, 2, 4))
    space.require(lambda c: c["rows"] * c["vectors"] <= 28)
    space.rank_by(lambda c: Cost(arithmetic=100.0 - c["rows"] * c["vectors"]))
    return space


def test_a_space_is_ranked_by_cost_without_its_invalid_configurations():
    space = example()
    assert space.knobs == {"rows": (1, 2, 4, 7, 8), "vectors": (1, 2, 4)}
    assert len(space) == 14  # all but 8 by 4
    assert space.default.to_json() == {"rows": 7, "vectors": 4} and str(space.default) == "rows=7 vectors=4"
    cycles = [cost.cycles for cost, _ in space.ranked]
    assert cycles == sorted(cycles) and len(cycles) == 14


def test_conditions_see_the_knobs_before_them_and_leave_nothing_to_try_after():
    """A knob that comes later is not multiplied with what has been ruled out."""
    space, seen = ConfigSpace(), []
    space.define_knob("a", range(10))
    space.require(lambda c: c["a"] == 3)
    space.define_knob("b", range(10))
    space.require(lambda c: not seen.append(dict(c)) and c["b"] > 7)
    assert [config.to_json() for config in space] == [{"a": 3, "b": 8}, {"a": 3, "b": 9}]
    assert len(seen) == 10


def test_knobs_defined_jointly_take_listed_combinations_only():
    space = ConfigSpace()
    space.define_joint(("a", "b"), [(1, 2), (3, 4), (1, 2)])
    assert len(space) == 2 and space.knobs == {"a": (1, 3), "b": (2, 4)}
    space.rank_by(lambda c: Cost(arithmetic=10.0 - c["a"]))
    assert space.default == space.config({"b": 4, "a": 3})
    with pytest.raises(ScheduleError, match="not valid together"):
        space.config({"a": 1, "b": 4})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": 7}, "has the knobs rows, vectors, not rows"),
        ({"rows": 5, "vectors": 1}, "rows=5 is not among its candidates: 1, 2, 4, 7, 8"),
        ({"rows": 8, "vectors": 4}, "rows=8 vectors=4 are not valid together"),
    ],
)
def test_configurations_outside_of_the_space(values, message):
    with pytest.raises(ScheduleError, match=message):
        example().config(values)


def test_knobs_need_names_and_candidates():
    space = example()
    for name, candidates in (("rows", (1,)), ("new", ())):
        with pytest.raises(ScheduleError, match="a name of its own and at least one candidate"):
            space.define_knob(name, candidates)
    space.require(lambda c: False)
    with pytest.raises(ScheduleError, match="no combination of the knobs rows, vectors is valid"):
        _ = space.default


def test_a_computation_without_a_template_takes_no_configuration():
    x = te.placeholder((8,), name="x")
    out = te.compute((8,), lambda i: x(i) + 1.0, name="y", tag="elemwise")
    assert space_of([out], TARGET) is None
    with pytest.raises(ScheduleError, match="no template with a search space"):
        schedule([out], TARGET, {"rows": 1})


def test_a_space_without_knobs_has_one_configuration():
    assert [dict(config) for config in ConfigSpace()] == [{}]


@pytest.mark.parametrize("size", [(16, 64, 56), (16, 512, 7), (32, 32, 224)])
def test_the_facts_of_a_graph_and_of_a_computation_give_one_choice(size):
    """The configuration that layouts are chosen by is the one that the kernel is scheduled by."""
    channels, filters, pixels = size
    plain = Conv2DWorkload(1, channels, filters, pixels, pixels, pixels, pixels, kernel_size=(3, 3), padded=True)
    data = te.placeholder((1, channels // 16, pixels, pixels, 16))
    way = conv2d_layouts(plain, ZEN4, 16)[0]
    if way.tile_size:
        points = (way.tile_size + 2,) * 2
        weight = te.placeholder((filters // 16, *points, channels, 16))
        out = topi.nn.conv2d_winograd_NCHWc(data, weight, (1, 1, 1, 1), way.tile_size)
    else:
        weight = te.placeholder((filters // 16, channels // 16, 3, 3, 16, 16))
        out = topi.nn.conv2d_NCHWc(data, weight, (1, 1), (1, 1, 1, 1))
    space = space_of([out], ZEN4)
    assert space is not None and space.default == way.config


@pytest.mark.parametrize("size", [7, 13, 14])
def test_pixels_of_small_images_are_one_row(size):
    """A tile of 7x7 pixels need not end with a row; the facts of the graph say so too."""
    plain = Conv2DWorkload(1, 64, 64, size, size, size, size)
    data, weight = sample(1, 4, size, size, 16), sample(4, 4, 1, 1, 16, 16, seed=1)
    inputs = placeholders([data, weight])
    out = topi.nn.conv2d_NCHWc(*inputs, (1, 1), (0, 0, 0, 0))
    space = space_of([out], ZEN4)
    assert space is not None and space.default == conv2d_layouts(plain, ZEN4, 16)[0].config
    assert (space.default["tile_columns"] > size) == (size == 7)
    found = run(lambda x, w: topi.nn.relu(topi.nn.conv2d_NCHWc(x, w, (1, 1), (0, 0, 0, 0))), data, weight)
    expected = np.einsum("nchwi,ocxyij->nohwj", data.astype("float64"), weight)
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


def test_the_size_of_the_second_level_cache_changes_the_choice():
    """Weights that two megabytes hold are read from there; 256 KiB make every pass read them from further away."""
    workload = Conv2DWorkload(1, 256, 256, 28, 28, 28, 28, 16, 16, (3, 3), tile_size=4)
    costs = [CONV2D_WINOGRAD.ranked(workload, Target(f"llvm -mcpu=znver4 -l2={size << 10}")) for size in (256, 2048)]
    assert costs[0].default != costs[1].default
    assert costs[0].ranked[0][0].cycles > costs[1].ranked[0][0].cycles


def test_one_vector_a_step_where_loads_are_cheap_and_two_where_they_are_not():
    """Zen 4 has two loads for one multiply-add a cycle, Skylake-SP one for one."""
    workload = Conv2DWorkload(1, 256, 64, 56, 56, 56, 56, 16, 16)
    skylake = CONV2D.ranked(workload, Target("llvm -mcpu=skylake-avx512")).default
    assert skylake["tile_blocks"] >= 2


@pytest.mark.parametrize(("name", "prefetches"), [("conv2d_NCHWc", 3), ("conv2d_winograd_NCHWc", 3)])
def test_weights_and_pieces_of_the_image_are_fetched_ahead(name, prefetches):
    """A line of each of two blocks of weights, and a loop over the lines of the tile's part of the image."""
    compute, operands = TEMPLATES[name]
    inputs = placeholders(operands)
    out = compute(*inputs)
    found = [c for _, c in space_of([out], ZEN4).ranked if c["ahead"] and c["tile_blocks"] == 2]
    assert found
    text = str(te.lower(schedule([out], ZEN4, found[0].to_json()), [*inputs, out], "k"))
    assert text.count("prefetch(") >= prefetches
    plain = {**found[0].to_json(), "ahead": 0}
    assert "prefetch(" not in str(te.lower(schedule([out], ZEN4, plain), [*inputs, out], "k"))


def test_weights_are_fetched_ahead_where_they_come_from_far():
    """512 channels at 7x7: nine megabytes of weights. 64 at 28x28: they stay in the level-2 cache."""
    far, near = (
        Conv2DWorkload(1, channels, channels, size, size, size, size, 16, 16, (3, 3))
        for channels, size in ((512, 7), (64, 28))
    )
    skylake = Target("llvm -mcpu=skylake-avx512 -cores=1")
    for workload, wanted in ((far, True), (near, False)):
        costs = {c["ahead"]: cost for cost, c in reversed(CONV2D.ranked(workload, skylake).ranked)}
        assert (costs[1].hidden > 0.1 * costs[1].cycles) == wanted
    assert CONV2D.ranked(far, skylake).default["ahead"] == 1


@pytest.mark.parametrize(("height", "width", "taps"), [(9, 10, 3), (1, 45, 2)], ids=["rows", "time"])
def test_workers_take_parts_of_the_image(height, width, taps):
    """An odd number of rows, or of tiles of one row, in two and three parts; all channel groups for each."""
    rows = min(3, height)
    data, kernel = _blocked(1, 2, height, width, 8), _blocked(4, 2, rows, taps, 8, 16, seed=1)
    inputs = placeholders([data, kernel])
    out = topi.nn.conv2d_NCHWc(*inputs, (1, 1), (rows // 2, taps - 1, rows // 2, 0))
    results = []
    for cores in (1, 2, 3):
        target = Target(f"cpu -cores={cores}")
        configs = [c for _, c in space_of([out], target).ranked if c["parts"] == cores]
        assert configs
        for config in (configs[0], configs[-1]):
            func = te.lower(schedule([out], target, config.to_json()), [*inputs, out], "k")
            result = np.full(topi.util.constant_shape(out), np.nan, "float32")
            build([func], target, threads=cores)["k"](data, kernel, result)
            results.append(result)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-5)


def test_weights_of_phases_are_asked_for_early_where_they_come_from_far():
    """Each phase has weights of its own: 8 MB that one tile reads once; those in the L2 need no asking."""
    target = Target("llvm -mcpu=sapphirerapids -cores=1")
    far = Conv2DWorkload(4, 512, 256, 4, 4, 4, 4, 16, 16, (2, 2), padded=True, phases=4)
    chosen = CONV2D_TRANSPOSE.ranked(far, target).default
    assert chosen["ahead"] == 1 and chosen["tile_rows"] * chosen["tile_columns"] == 16
    near = replace(far, in_channels=64, out_channels=64)
    assert CONV2D_TRANSPOSE.ranked(near, target).default["ahead"] == 0


@pytest.mark.parametrize("cores", [1, 2])
def test_rows_that_a_tile_of_several_leaves(cores):
    """Seven rows of seven are three tiles of two rows and one of one: the weights pass by four times, not seven.

    Run with rows of three, which tiles of two fill with the registers of any processor.
    """
    target = Target(f"llvm -mcpu=sapphirerapids -cores={cores}")
    strided = Conv2DWorkload(1, 256, 512, 15, 15, 7, 7, 16, 16, (3, 3), (2, 2))
    assert CONV2D.ranked(strided, target).default["tile_rows"] == 2
    block = Target("cpu").machine.lanes()
    data, kernel = _blocked(1, 2, 15, 7, block), _blocked(2, 2, 3, 3, block, block, seed=1)
    inputs = placeholders([data, kernel])
    out = topi.nn.conv2d_NCHWc(*inputs, (2, 2), (0, 0, 0, 0))
    configs = [c for _, c in space_of([out], Target(f"cpu -cores={cores}")).ranked if 7 % c["tile_rows"]]
    assert {config["parts"] for config in configs} == {1, cores}
    picked = {(c["tile_rows"], c["parts"], c["ahead"]): c for c in configs}
    windows = np.lib.stride_tricks.sliding_window_view(data.astype("float64"), (3, 3), (2, 3))[:, :, ::2, ::2]
    expected = np.einsum("nchwbij,ocijbp->nohwp", windows, kernel.astype("float64"))
    for config in picked.values():
        func = te.lower(schedule([out], Target(f"cpu -cores={cores}"), config.to_json()), [*inputs, out], "k")
        result = np.full(topi.util.constant_shape(out), np.nan, "float32")
        build([func], Target(f"cpu -cores={cores}"), threads=cores)["k"](data, kernel, result)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_what_other_cores_wrote_costs_more():
    """A convolution over time has one row: two workers take half of its columns each, not half of the channels."""
    over_time = Conv2DWorkload(1, 64, 64, 1, 2048, 1, 2048, 16, 16, (1, 2))
    far = Conv2DWorkload(1, 512, 512, 7, 7, 7, 7, 16, 16, (3, 3))
    target = Target("llvm -mcpu=skylake-avx512 -cores=2")
    assert CONV2D.ranked(over_time, target).default["parts"] == 2
    assert CONV2D.ranked(far, target).default["parts"] == 1  # each would read nine megabytes of weights


def _blocked(*shape: int, seed: int = 0) -> np.ndarray:
    return sample(*shape, seed=seed)


def _bytes(*shape: int, seed: int = 0) -> np.ndarray:
    return sample(*shape, dtype="int8", seed=seed)


#: template -> (compute, operands)
TEMPLATES = {
    "conv2d_NCHWc": (
        lambda x, w: topi.nn.conv2d_NCHWc(x, w, (1, 1), (1, 1, 1, 1)),
        [_blocked(1, 2, 10, 9, 8), _blocked(4, 2, 3, 3, 8, 16, seed=1)],
    ),
    "grouped_conv2d_NCHWc": (
        lambda x, w: topi.nn.grouped_conv2d_NCHWc(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 2),
        [_blocked(1, 4, 10, 9, 8), _blocked(4, 2, 3, 3, 8, 16, seed=1)],
    ),
    "depthwise_conv2d_NCHWc": (
        lambda x, w: topi.nn.depthwise_conv2d_NCHWc(x, w, (2, 2), (1, 1, 1, 1)),
        [_blocked(1, 2, 11, 12, 16), _blocked(2, 1, 3, 3, 1, 16, seed=1)],
    ),
    "conv2d_winograd_NCHWc": (
        lambda x, w: topi.nn.conv2d_winograd_NCHWc(x, w, (1, 1, 1, 1), 2),
        [_blocked(1, 1, 9, 8, 16), _blocked(2, 4, 4, 16, 16, seed=1)],
    ),
    "conv2d_transpose_NCHWc": (
        lambda x, w: topi.nn.conv2d_transpose_NCHWc(x, w, (2, 2), (1, 1, 1, 1), (0, 0), "float32"),
        [_blocked(1, 1, 5, 6, 16), _blocked(2, 4, 4, 1, 16, 16, seed=1)],
    ),
    "conv2d_nchw": (
        lambda x, w: topi.nn.conv2d_nchw(x, w, (1, 1), (1, 1, 1, 1)),
        [_blocked(1, 3, 9, 37), _blocked(6, 3, 3, 3, seed=1)],
    ),
    "conv2d_1x1_nchw": (
        lambda x, w: topi.nn.conv2d_nchw(x, w, (1, 1), (0, 0, 0, 0)),
        [_blocked(1, 8, 9, 13), _blocked(6, 8, 1, 1, seed=1)],
    ),
    "depthwise_conv2d_NCHWc,conv2d_NCHWc": (
        lambda x, w, p: topi.nn.conv2d_NCHWc(
            topi.nn.depthwise_conv2d_NCHWc(x, w, (1, 1), (1, 1, 1, 1)), p, (1, 1), (0, 0, 0, 0)
        ),
        [_blocked(1, 2, 28, 9, 16), _blocked(2, 1, 3, 3, 1, 16, seed=1), _blocked(4, 2, 1, 1, 16, 16, seed=2)],
    ),
    "depthwise_conv2d_nchw": (
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, (1, 1), (1, 1, 1, 1)),
        [_blocked(1, 4, 9, 37), _blocked(4, 1, 3, 3, seed=1)],
    ),
    "dense_pack": (lambda x, w: topi.nn.dense_pack(x, w), [_blocked(13, 24), _blocked(3, 24, 32, seed=1)]),
    "dense_dot": (
        lambda x, w: topi.nn.dense_dot(x, w),
        [_bytes(13, 24), _bytes(3, 6, 32, 4, seed=1)],
    ),
    "conv2d_dot_NCHWc": (
        lambda x, w: topi.nn.conv2d_dot_NCHWc(x, w, (1, 1), (1, 1, 1, 1)),
        [_bytes(1, 2, 10, 9, 8), _bytes(4, 2, 3, 3, 2, 16, 4, seed=1)],
    ),
    "attention": (
        lambda q, k, v: topi.nn.attention(q, k, v, scale=0.3),
        [_blocked(1, 3, 21, 16), _blocked(1, 3, 37, 16, seed=1), _blocked(1, 3, 37, 32, seed=2)],
    ),
    "batch_matmul": (lambda x, y: topi.nn.batch_matmul(x, y), [_blocked(2, 11, 24), _blocked(2, 96, 24, seed=1)]),
}


def test_every_template_with_a_space_is_tried():
    """The others have no knobs, several outputs (`attention_backward`, `recurrent`), or tests of their own."""
    for name, (compute, operands) in TEMPLATES.items():
        found = template_of([compute(*placeholders(operands))])
        assert found is not None and found[0] is REGISTRY[name]
    assert set(REGISTRY) - set(TEMPLATES) == {
        "attention_backward",
        "bitserial_conv2d",
        "conv2d_backward_weight",
        "conv2d_transpose_nchw",
        "dense_blockwise",
        "narrow_attention",
        "pool",
        "recurrent",
    }


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_there_is_something_to_choose(name):
    compute, operands = TEMPLATES[name]
    space = space_of([compute(*placeholders(operands))], ZEN4)
    assert space is not None and len(space) > 1


@pytest.mark.parametrize("name", list(TEMPLATES))
@pytest.mark.sample(4)
def test_configurations_compute_the_same(name):
    """Six configurations of each space, spread over its ranking, beside the loops that nothing schedules."""
    compute, operands = TEMPLATES[name]
    inputs = placeholders(operands)
    out = compute(*inputs)
    space = space_of([out], TARGET)
    assert space is not None
    count = len(space.ranked)
    assert count > 1
    schedules = [te.create_schedule(out.op)]
    for position in sorted({0, *range(0, count, -(-count // 6)), count - 1}):
        schedules.append(schedule([out], TARGET, space.ranked[position][1].to_json()))
    results = []
    for number, one in enumerate(schedules):
        func = te.lower(one, [*inputs, out], f"k{number}")
        unwritten = np.nan if out.dtype == "float32" else np.iinfo(out.dtype).min
        result = np.full(topi.util.constant_shape(out), unwritten, out.dtype)
        build([func], TARGET, threads=2)[f"k{number}"](*operands, result)
        results.append(result)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-5)
