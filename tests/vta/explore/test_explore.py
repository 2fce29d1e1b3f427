"""Exploration: the space and its bounds, one whole run, the bundle, layers of a graph, the command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tilewright import relay
from tilewright.cli.vta import vta_command
from tilewright.errors import InputError, UserError
from tilewright.vta import Config
from tilewright.vta.explore.bundle import write_bundle
from tilewright.vta.explore.explore import DEFAULT, Point, bound_of, explore, tuned_point
from tilewright.vta.explore.networks import Layer, Work, work_of
from tilewright.vta.explore.space import Candidate, area_model, candidates, port_of
from tilewright.vta.hardware import Hardware
from tilewright.vta.schedule import choice
from tilewright.vta.schedule.geometry import Conv2D, Tiling
from tilewright.vta.usage import Usage

SQUARE = Layer((1, 64, 14, 14), (64, 64, 3, 3), padding=(1, 1, 1, 1))
LAYERS = Work(Counter({SQUARE: 2, Layer((1, 64, 1, 1), (32, 64, 1, 1)): 1}), ["nn.conv2d of another layout"])


def test_the_space_has_more_than_a_thousand_and_says_why_others_drop_out() -> None:
    space = list(candidates())
    there = [found for found in space if isinstance(found, Candidate)]
    refused = [str(found) for found in space if isinstance(found, UserError)]
    assert len(there) > 1000
    assert len({found.name for found in there}) == len(there)
    assert any("cannot be encoded" in text for text in refused)


def test_area_grows_with_everything() -> None:
    base, port = Config(), port_of(8)
    for larger in (
        Config(log_block=5),
        Config(log_wgt_buff_size=19),
        Config(log_acc_buff_size=18),
        Config(isa_version=2),
    ):
        assert area_model(larger, port) > area_model(base, port)
    assert area_model(base, port_of(64)) > area_model(base, port)


def test_an_exploration_and_its_bundle(tmp_path: Path) -> None:
    said: list[str] = []
    found = explore([LAYERS], budget=1.2, keep=3, trials=1, progress=said.append)
    assert found.considered > 1000
    assert found.considered >= found.refused + found.too_large + len(found.bounded)
    assert len(found.tuned) == 3
    assert found.chosen in found.tuned
    assert all(p.candidate.area <= 1.2 * DEFAULT.area for p in found.tuned)
    assert all(p.cycles is not None and p.cycles >= p.bound for p in [found.default, *found.tuned])
    assert found.speedup > 1
    assert found.default.bound == bound_of(DEFAULT, [LAYERS])
    assert "can be encoded" in said[0]

    files = write_bundle(found, tmp_path)
    assert Config.from_json((tmp_path / "configuration.json").read_text()) == found.chosen.candidate.config
    rows = json.loads((tmp_path / "schedules.json").read_text())
    assert sum(row["cycles"] * row["count"] for row in rows) == found.chosen.cycles
    report = (tmp_path / "report.md").read_text()
    assert "(chosen)" in report
    assert "nn.conv2d of another layout" in report
    assert ("vta.v" in files) == ("The Verilog is missing" not in report)
    ElementTree.fromstring((tmp_path / "pareto.svg").read_text())


def test_the_layers_of_a_graph() -> None:
    x = relay.var("x", shape=(1, 3, 32, 32), dtype="float32")
    w = relay.var("w", shape=(16, 3, 3, 3), dtype="float32")
    grouped = relay.var("g", shape=(16, 1, 3, 3), dtype="float32")
    dense = relay.var("d", shape=(10, 16), dtype="float32")
    y = relay.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1), channels=16, kernel_size=(3, 3))
    y = relay.nn.conv2d(y, grouped, padding=(1, 1), groups=16, channels=16, kernel_size=(3, 3))
    y = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)), dense)
    mod = relay.IRModule.from_expr(relay.Function([x, w, grouped, dense], y))
    found = work_of(mod)
    first = Layer((1, 3, 32, 32), (16, 3, 3, 3), (2, 2), (1, 1, 1, 1))
    depthwise = Layer((1, 16, 16, 16), (16, 1, 3, 3), (1, 1), (1, 1, 1, 1), groups=16)
    assert found.layers == Counter({first: 1, depthwise: 1, Layer((1, 16, 1, 1), (10, 16, 1, 1)): 1})
    assert found.macs == 16 * 16 * 16 * 27 + 16 * 16 * 16 * 9 + 160
    patches = Conv2D(1, 2, 1, 16, 16)
    side_by_side = Conv2D(1, 1, 1, 16, 16, (3, 3), padding=(1, 1, 1, 1))
    assert found.on(Config()) == Counter({patches: 1, side_by_side: 1, Conv2D(1, 1, 1, 1, 1): 1})


def test_layers_that_the_accelerator_does_not_do_are_named() -> None:
    x, w = (
        relay.var(name, shape=shape, dtype="float32") for name, shape in (("x", (1, 8, 8, 16)), ("w", (3, 3, 16, 4)))
    )
    y = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    found = work_of(relay.IRModule.from_expr(relay.Function([x, w], y)))
    assert not found.layers and "NHWC" in found.left_out[0]


def test_an_exploration_that_was_broken_off_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    simulated: list[Conv2D] = []
    usage = choice.usage_of

    def counted(config: Config, hardware: Hardware, conv: Conv2D, tiling: Tiling) -> Usage:
        simulated.append(conv)
        if len(simulated) == 2:
            raise KeyboardInterrupt
        return usage(config, hardware, conv, tiling)

    monkeypatch.setattr(choice, "usage_of", counted)
    point = Point(DEFAULT, 0)
    choice.tune.cache_clear()
    with pytest.raises(KeyboardInterrupt):
        tuned_point(point, [LAYERS], 1)
    for _ in range(2):
        choice.tune.cache_clear()
        assert tuned_point(point, [LAYERS], 1).cycles
    assert len(simulated) == 3  # one was done, one broken off and done again


def test_what_cannot_be_explored() -> None:
    with pytest.raises(InputError, match="no convolution or dense layer"):
        explore([Work()])
    with pytest.raises(UserError, match=r"no configuration of at most 0\.01 times"):
        explore([LAYERS], budget=0.01)
    outcome = CliRunner().invoke(vta_command, ["explore", "nowhere.onnx"])
    assert outcome.exit_code != 0
    assert "nowhere.onnx" in str(outcome.exception) + outcome.output
