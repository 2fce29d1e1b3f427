"""The count of rewrite rules: it sees rules fire, the page has every rule, silent ones have a reason to stay."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright import relay, tir
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.tir.arith.analyzer import Analyzer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "rules.md").read_text()
FIRE, SILENT = PAGE.split("## Not on these networks")
#: Why rules stay that fire on none of these networks; patterns of their names.
WHY = {
    r"algebra_rules\.(clip_of_clip|twice_is_.*|neutral_left)": "exporters leave such pairs: ReLU6 after a clip, 0 + x",
    r"algebra_rules\.(divide_by_power_of_two|subtract_constant)": "image normalization in the model: (x - 128) / 256",
    r"(shape_rules|canonicalize_ops)\..*": "forms of other exporters: shapes computed in graphs, other layouts",
    r"fake_quantization_to_integer\..*": "models quantized with QDQ around these operators",
    r"dot_products\..*": "products of bytes of these operators",
    r"simplify_inference\..*": "operators of training and of formats that no network here has",
    r".*(min|max)\(.*": "bounds of tails and of symbolic dimensions, which these networks with fixed sizes lack",
    r"trunc(div|mod).*|x % y % y.*": "indices that programs of te compute with the division of C",
    r".*(\band\b|\bor\b|\bnot\b).*": "guards of schedules that users write, and conditions of padding that nest",
    r".*(select|if_then_else|Select|where)\(.*": "branches that nest under one condition, as padding of padding makes",
    r".*(f|g)\b.* → .*": "arithmetic of te programs that no pass of the graph has simplified",
}


@pytest.fixture
def rules(bench_folder: Path) -> Any:
    return importlib.import_module("rules")


def test_a_rule_of_graphs_is_counted_when_it_fires(rules: Any) -> None:
    x = relay.var("x", shape=(4,))
    mod = infer_type(relay.IRModule.from_expr(relay.Function([x], relay.clip(relay.clip(x, -1.0, 1.0), 0.0, 2.0))))
    with rules.counted() as counts:
        simplify_expr(mod)
    assert counts["algebra_rules.clip_of_clip"] == 1
    assert not counts["algebra_rules.twice_is_nothing"]


def test_a_rule_of_indices_is_counted_when_it_fires(rules: Any) -> None:
    x, y = tir.Var("x"), tir.Var("y")
    with rules.counted() as counts:
        simplified = Analyzer().simplify(tir.expr.Not(tir.expr.EQ(x, y)))
    assert str(simplified) == "x != y"
    assert counts["not u == v → u != v"] == 1


def test_the_page_has_every_rule_once(rules: Any) -> None:
    listed = re.findall(r"^\| `(.+?)` \|", FIRE, re.MULTILINE) + re.findall(r"^- `(.+)`", SILENT, re.MULTILINE)
    assert sorted(listed) == sorted(rules.all_rules()), "run python bench/rules.py --write"


@pytest.mark.parametrize("name", re.findall(r"^- `(.+)`", SILENT, re.MULTILINE))
def test_a_rule_that_no_network_needs_has_a_reason(name: str) -> None:
    assert any(re.fullmatch(pattern, name) for pattern in WHY)
