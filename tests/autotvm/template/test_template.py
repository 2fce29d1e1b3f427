"""Templates of users: knobs, configurations, contexts, tasks, and every error that a template can meet."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te
from tilewright.autotvm.template.count_flops import compute_flop, count_flops
from tilewright.autotvm.template.dispatch import ApplyConfig, FallbackContext, get_config
from tilewright.autotvm.template.entities import OtherOptionEntity, SplitEntity
from tilewright.autotvm.template.space import ConfigEntity, ConfigSpace, FallbackConfigEntity, VirtualAxis
from tilewright.autotvm.template.template import args_to_workload, create, template
from tilewright.errors import ArtifactError, InputError, ScheduleError
from tilewright.te.lower import lower


def product(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder((n, n), "float32", "a"), te.placeholder((n, n), "float32", "b")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return te.create_schedule(c.op), [a, b, c]


@template("tests/product")
def tiled(n: int) -> Any:
    s, (a, b, c) = product(n)
    y, x = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    cfg = get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=3)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xm, xi = cfg["tile_x"].apply(s, c, x)
    cfg.define_reorder("order", [yi, xm, k], "all")
    cfg.define_annotate("inner", [xi], "try_unroll_vec")
    cfg.define_knob("unroll", [False, True])
    s[c].reorder(yo, xo)
    cfg["order"].apply(s, c, [yi, xm, k])
    cfg["inner"].apply(s, c, [xi])
    return s, [a, b, c]


def test_points_are_numbered_as_in_the_classic_stack() -> None:
    space = ConfigSpace()
    space.define_split("tile_y", 64, num_outputs=2)
    space.define_split("tile_x", 64, num_outputs=2)
    space.define_knob("unroll", [0, 16])
    assert len(space) == 7 * 7 * 2
    config = space.get(37)
    assert config["tile_y"].size == [-1, 4] and config["tile_x"].size == [-1, 32] and config["unroll"].val == 0


def test_every_configuration_of_a_task_is_a_schedule() -> None:
    task = create("tests/product", args=(4,))
    assert len(task.config_space) == 3 * 6 * 6 * 3 * 2
    assert task.flop == 2 * 4**3
    for index in (0, 5, 100, len(task.config_space) - 1):
        schedule, tensors = task.instantiate(task.config_space.get(index))
        assert lower(schedule, tensors, "f").name == "f"


def test_points_lead_to_configurations_and_back() -> None:
    points = create("tests/product", args=(4,)).points
    for point in (0, 7, len(points) - 1):
        assert points.at(points.position(point)) == point == points.find(points.plain(point))
    assert points.at((99, 0, 0, 0, 0)) is None and points.find({"tile_y": ["sp", [-1, 3]]}) is None


def test_a_configuration_reads_back_from_a_log() -> None:
    config = create("tests/product", args=(4,)).config_space.get(11)
    read = ConfigEntity.from_json_dict(config.to_json_dict())
    assert read == config and read.index == 11 and read.to_json_dict() == config.to_json_dict()
    with pytest.raises(ArtifactError, match="no configuration of a template"):
        ConfigEntity.from_json_dict({"index": 1})
    with pytest.raises(ArtifactError, match="unknown kind 'zz'"):
        ConfigEntity.from_json_dict({"index": 1, "code_hash": None, "entity": [["x", "zz", 1]]})


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"policy": "factors"}, [[-1, 1], [-1, 2], [-1, 3], [-1, 6]]),
        ({"policy": "power2"}, [[-1, 1], [-1, 2], [-1, 4]]),
        ({"policy": "verbose", "max_factor": 4}, [[-1, 1], [-1, 2], [-1, 3], [-1, 4]]),
        ({"policy": "power2", "no_tail": True}, [[-1, 1], [-1, 2]]),
        ({"policy": "candidate", "candidate": [[-1, 3], [2, 3]]}, [[-1, 3], [2, 3]]),
        ({"policy": "factors", "filter": lambda entity: entity.size[-1] > 2}, [[-1, 3], [-1, 6]]),
    ],
)
def test_policies_of_splits(options: dict[str, Any], sizes: list[list[int]]) -> None:
    space = ConfigSpace()
    space.define_split("s", VirtualAxis(6), **options)
    assert [entity.size for entity in space.space_map["s"]] == sizes


@pytest.mark.parametrize(
    ("options", "orders"),
    [
        ({"policy": "identity"}, [[0, 1, 2]]),
        ({"policy": "interval", "interval": (1, 3)}, [[0, 1, 2], [0, 2, 1]]),
        ({"policy": "interval_all"}, [[1, 0, 2], [2, 1, 0], [0, 2, 1]]),
    ],
)
def test_policies_of_orders(options: dict[str, Any], orders: list[list[int]]) -> None:
    space, axes = ConfigSpace(), [VirtualAxis(2) for _ in range(3)]
    space.define_reorder("o", axes, **options)
    assert [list(entity.perm) for entity in space.space_map["o"]] == orders
    other = ConfigSpace()
    other.define_reorder("o", axes, "candidate", candidate=[[axes[2], axes[0], axes[1]]])
    other.define_reorder("i", axes, "interleave", spatial=[[axes[0]], [axes[1]]], reduce=[[axes[2]]])
    assert list(other["o"].perm) == [2, 0, 1] and list(other["i"].perm) == [0, 2, 1]


def test_a_template_called_plainly_takes_the_configuration_in_force() -> None:
    space = create("tests/product", args=(4,)).config_space
    with ApplyConfig(space.get(len(space) - 1)):
        assert get_config().index == len(space) - 1
    context = FallbackContext()
    config = FallbackConfigEntity()
    config["tile_y"] = SplitEntity([-1, 4])
    context.update(None, args_to_workload((4,), "tests/product"), config)
    with context:
        schedule, tensors = tiled(4)
    assert isinstance(schedule, te.Schedule) and len(tensors) == 3
    assert len(config.space_map) == 5, "what has no record declares its space all the same"


@pytest.mark.parametrize(
    ("length", "bounds", "lengths"),
    [
        (64, [-1, 8, 4], [2, 8, 4]),
        (49, [-1, 8, 4], [7, 7, 1]),
        (64, [4, -1, 4], [1, 16, 4]),
        (6, [-1, 4, 5], [1, 2, 3]),
    ],
)
def test_a_fallback_has_the_largest_divisors_within_bounds(length: int, bounds: list[int], lengths: list[int]) -> None:
    config = FallbackConfigEntity()
    config.define_split("tile", length, num_outputs=3)
    config.fallback_split("tile", bounds)
    config.define_split("tile", length, num_outputs=3)
    assert config["tile"].size == lengths


def test_a_fallback_is_refused_where_nothing_is_within_its_bounds() -> None:
    config = FallbackConfigEntity()
    config.define_split("tile", 64, num_outputs=3)
    with pytest.raises(InputError, match=r"fallback_split of 'tile': no split has lengths within \[-1, 8, 0\]"):
        config.fallback_split("tile", [-1, 8, 0])
    with pytest.raises(InputError, match=r"\[8, 4\] are not bounds for \[-1, 1, 1\]"):
        config.fallback_split("tile", [8, 4])
    config["other"] = OtherOptionEntity(3)
    assert "other" in config and config["other"].val == 3


def test_operations_are_counted_in_the_definition() -> None:
    schedule, _ = product(8)
    assert count_flops(schedule) == compute_flop(schedule) == 2 * 8**3


def test_what_indices_are_computed_by_does_not_count() -> None:
    a = te.placeholder((10,), "int32", "a")
    k = te.reduce_axis((0, 3), "k")
    pooled = te.compute((8,), lambda i: te.sum(a[i + k] // 3, axis=k))
    assert count_flops(te.create_schedule(pooled.op)) == 2 * 8 * 3
    with pytest.raises(InputError, match="has no arithmetic to count"):
        compute_flop(te.create_schedule(te.compute((8,), lambda i: a[i + 1]).op))


def test_an_unknown_knob_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="no knob 'tile_z'; it has: tile_y, tile_x, order, inner, unroll"):
        create("tests/product", args=(4,)).config_space.get(0)["tile_z"]


def test_a_template_without_a_space_is_refused() -> None:
    template("tests/plain", lambda n: product(n))
    with pytest.raises(ScheduleError, match="'tests/plain' declares no knobs, so there is nothing to tune"):
        create("tests/plain", args=(4,))


def test_a_template_must_return_a_schedule_and_arguments() -> None:
    def broken(n: int) -> Any:
        get_config().define_knob("k", [1])
        return product(n)[0]

    template("tests/broken", broken)
    with pytest.raises(ScheduleError, match="must return a schedule and the list of its arguments"):
        create("tests/broken", args=(4,))


def test_a_template_may_refuse_its_workload_or_a_configuration() -> None:
    def picky(n: int) -> Any:
        cfg = get_config()
        cfg.define_knob("k", [1, 2])
        if n > 4 or (isinstance(cfg, ConfigEntity) and cfg["k"].val == 2):
            cfg.raise_error("too large")
        return product(n)

    template("tests/picky", picky)
    with pytest.raises(ScheduleError, match="'tests/picky' cannot be used: too large"):
        create("tests/picky", args=(8,))
    task = create("tests/picky", args=(4,))
    with pytest.raises(ScheduleError, match="too large"):
        task.instantiate(task.config_space.get(1))


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda cfg: cfg.define_split("s", 8, policy="fair"), "no policy 'fair' of splits; there are: factors, power2"),
        (lambda cfg: cfg.define_reorder("o", [VirtualAxis(2)], "some"), "no policy 'some' of orders"),
        (lambda cfg: cfg.define_annotate("a", [VirtualAxis(2)], "some"), "no policy 'some' of annotations"),
        (lambda cfg: cfg.define_knob("k", []), "knob 'k' has no values"),
    ],
)
def test_what_cannot_be_declared_is_refused(declare: Any, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        declare(ConfigSpace())


def test_other_mistakes_are_told() -> None:
    with pytest.raises(InputError, match=r"no template 'nowhere'; there are: .*'tests/product'"):
        create("nowhere", args=())
    with pytest.raises(InputError, match="takes its arguments by position, not n="):
        tiled(n=4)
    with pytest.raises(InputError, match="not a dict"):
        args_to_workload(({},))
    with pytest.raises(InputError, match="the configurations 0 to"):
        create("tests/product", args=(4,)).config_space.get(-1)
