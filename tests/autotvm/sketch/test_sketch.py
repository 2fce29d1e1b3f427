"""Sketches: what the rules make of a computation, that every configuration is right, and what the space can do."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.autotvm.sketch.computations import CASES, convolution, norm, product, products, softmax
from tilewright import te
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.backend.build import build
from tilewright.errors import InputError, UnsupportedError
from tilewright.target import Target
from tilewright.topi.schedule.sketch.derive import tile_choices
from tilewright.topi.schedule.sketch.structure import structure_of

#: Configurations at random of each computation.
_TRIED = 6


def _roles(tensors: list[te.Tensor]) -> dict[str, str]:
    outputs = [tensor for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]
    return {part.name: part.role for part in structure_of(outputs)}


def test_an_elementwise_end_belongs_to_the_tiles_of_what_it_ends() -> None:
    assert _roles(product()[0]) == {"out": "epilogue", "added": "inline", "c": "tiled"}


def test_what_others_read_too_has_tiles_of_its_own() -> None:
    assert _roles(products()[0]) == {"e": "tiled", "d": "tiled"}


def test_padding_may_be_computed_anywhere_before_its_convolution() -> None:
    tensors, _ = convolution()
    assert _roles(tensors) == {"conv": "tiled", "pad": "movable"}
    assert SketchTask(tensors, "cpu").points.values["pad.at"] == (0, 1, 2, 3)


def test_what_is_costly_to_repeat_is_kept() -> None:
    assert _roles(softmax()[0]) == {"out": "pass", "total": "reduce", "raised": "pass", "largest": "reduce"}


def test_a_long_sum_to_one_result_is_shared_by_workers() -> None:
    points = SketchTask(norm()[0], Target("cpu -cores=4")).points
    assert points.values["squares.shares"] == (1, 4, 8, 16)
    assert "squares.shares" not in SketchTask(norm(64)[0], Target("cpu -cores=4")).points.values


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.sample(6)
def test_every_configuration_computes_the_same(name: str, cores: int) -> None:
    tensors, expected = CASES[name]()
    task = SketchTask(tensors, f"cpu -cores={cores}", name)
    generator, values = Random(cores), np.random.default_rng(0)
    inputs = [values.standard_normal(a.shape).astype(a.dtype) for a in task.arguments if a.role == "input"]
    wanted = expected(*inputs)
    for _ in range(_TRIED):
        point = task.points.random(generator)
        outputs = [np.full(a.shape, np.nan, a.dtype) for a in task.arguments if a.role == "output"]
        module = build(task.lower(task.points.config(point)), task.target)
        module["kernel"](*inputs, *outputs)
        for found, right in zip(outputs, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
            np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5, err_msg=str(task.points.config(point)))


def test_configurations_survive_as_plain_data() -> None:
    points = SketchTask(convolution()[0], "cpu").points
    generator = Random(3)
    for _ in range(20):
        point = points.random(generator)
        assert points.at(points.position(point)) == point
        assert points.find(points.plain(point)) == point
    assert points.find({"conv.tile0": [1, 1, 1]}) is None
    assert points.find({**points.plain(point), "conv.tile1": [3, 5, 7]}) is None


def test_children_have_the_knobs_of_each_stage_from_one_parent() -> None:
    points = SketchTask(softmax()[0], "cpu").points
    generator = Random(1)
    for _ in range(20):
        first, second = points.random(generator), points.random(generator)
        members = first, second, points.crossed(first, second, generator)
        for stage in ("out", "total", "raised", "largest"):
            knobs = [
                {name: value for name, value in points.plain(point).items() if name.startswith(f"{stage}.")}
                for point in members
            ]
            assert knobs[2] in knobs[:2]


def test_tiles_divide_their_axis_where_it_has_divisors() -> None:
    assert all(48 % (a * b * c) == 0 for a, b, c in tile_choices(48))
    assert {c for _, _, c in tile_choices(197)} >= {1, 2, 4, 8, 16, 32, 64}


def test_what_random_points_strain_is_less_than_what_any_do() -> None:
    points = SketchTask(product(64, 64, 64)[0], "cpu").points
    generator = Random(0)
    chosen = [points.strain(points.random(generator)) for _ in range(30)]
    anywhere = [points.strain(generator.randrange(points.size)) for _ in range(30)]
    assert np.mean(chosen) < np.mean(anywhere)


def test_tasks_of_one_computation_have_one_key() -> None:
    assert SketchTask(product()[0], "cpu").key == SketchTask(product()[0], "cpu").key
    assert SketchTask(product()[0], "cpu").key != SketchTask(product(n=32)[0], "cpu").key


def test_a_scan_has_no_sketch() -> None:
    state = te.placeholder((4, 8), name="state")
    first = te.compute((1, 8), lambda t, i: te.placeholder((1, 8), name="x")[t, i], name="first")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + 1.0, name="update")
    with pytest.raises(UnsupportedError, match=r"scan.*write a template"):
        SketchTask([te.scan(first, update, state, name="scan")], "cpu")


def test_arguments_without_a_computation_are_refused() -> None:
    with pytest.raises(InputError, match="computes nothing"):
        SketchTask([te.placeholder((3,), name="a")], "cpu")


def test_an_open_size_is_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    with pytest.raises((InputError, UnsupportedError), match=r"symbolic dimension.*fix it to a number"):
        SketchTask([a, te.compute((n,), lambda i: a[i] + 1.0, name="b")], "cpu")
