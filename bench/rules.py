"""Count which rewrite rules fire while networks are compiled, and write docs/rules.md.

    python bench/rules.py [--names resnet18,lstm_lm] [--write]

Counted are the rules of graphs (those of `simplify_expr`, and those that passes find by operator, `RuleIndex`) and the
rules of index expressions (`tir/arith/rules.py`). Networks are compiled as far as the loop IR of their kernels.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

from networks import SETS, model_file

from tilewright.cli.inspect import chosen_kernels
from tilewright.driver.lower import lower_function
from tilewright.driver.optimize import optimize
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.ir import registry
from tilewright.relay.transform.quantize import dot_products, fake_quantization_to_integer
from tilewright.relay.transform.simplify import algebra_rules, shape_rules, simplify_expr, simplify_inference
from tilewright.relay.transform.simplify.rule_index import RuleIndex
from tilewright.target import Target
from tilewright.tir.arith import pattern, rules, simplify

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules.md"
#: A processor of its own, so that the counts are the same on every machine.
TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -l1d=32768 -l2=1048576 -l3=33554432 -cores=1"
INDEXED = (simplify_inference, fake_quantization_to_integer, dot_products)
INTRODUCTION = """# Rewrite rules that fire

How often each rule fires while the networks named below are compiled, and in how many of them; written by
`bench/rules.py --write`. Rules of graphs are named after their functions, rules of index expressions
(`tir/arith/rules.py`) are printed. Those that do not fire stand at the end; `tests/bench/test_rules.py` states why each
stays.
"""


def rule_name(rule: Callable[..., Any]) -> str:
    """The module and function of a graph rule; of one that a function made, that function."""
    rule = getattr(rule, "func", rule)  # of a partial application, the function
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__qualname__.partition('.')[0]}"


def index_rules() -> list[pattern.Rule]:
    """The rules of index expressions as written, before their operands are put in every order."""
    return [*rules.INTEGER_RULES, *rules.LOGIC_RULES, *rules.CHOICE_RULES, *rules.FLOAT_RULES]


def text(rule: pattern.Rule) -> str:
    """A rule of index expressions in one line."""
    return f"{rule.pattern} → {rule.replacement}" + ("" if rule.condition is None else f" if {rule.condition}")


def all_rules() -> list[str]:
    """Every rule by its name, those of graphs first."""
    operators = [registry.get(name) for name in registry.names()]
    found = [rule_name(rule) for of in (algebra_rules, shape_rules) for op in operators for rule in of.rules_of(op)]
    found += [rule_name(rule) for module in INDEXED for rule in module.rule_of]
    return [*sorted(dict.fromkeys(found)), *dict.fromkeys(map(text, index_rules()))]


def _counting(rule: Callable[..., Any], counts: Counter[str]) -> Callable[..., Any]:
    name = rule_name(rule)

    @wraps(getattr(rule, "func", rule))
    def counted(*args: Any) -> Any:
        result = rule(*args)
        counts[name] += result is not None
        return result

    return counted


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the rules that fire within."""
    counts: Counter[str] = Counter()
    plain_rules, plain_match, plain_fill = RuleIndex.rules, simplify.match, simplify.fill
    simplified = simplify_expr.rules_of
    names: dict[Any, str] = {}
    for rule in index_rules():
        for form in pattern.orders(rule.pattern):
            names[form, rule.replacement] = text(rule)
    matched: list[Any] = [None]

    def match(form: Any, x: Any, binding: Any) -> bool:
        matched[0] = form
        return plain_match(form, x, binding)

    def fill(form: Any, binding: Any) -> Any:
        name = names.get((matched[0], form))
        if name is not None:
            counts[name] += 1
        return plain_fill(form, binding)

    def rules_of(op: Any) -> tuple[Any, ...]:
        return tuple(_counting(rule, counts) for rule in simplified(op))

    def by_operator(self: Any, op: object) -> tuple[Any, ...]:
        found = plain_rules(self, op)
        indexed = any(self is module.rule_of for module in INDEXED)
        return tuple(_counting(rule, counts) for rule in found) if indexed else found

    with (
        mock.patch.object(simplify, "match", match),
        mock.patch.object(simplify, "fill", fill),
        mock.patch.object(simplify_expr, "rules_of", rules_of),
        mock.patch.object(RuleIndex, "rules", by_operator),
    ):
        yield counts


def fired(mod: Any) -> Counter[str]:
    """The rules that fire while a module is compiled as far as the loop IR, with how often each does."""
    target = Target(TARGET)
    with counted() as counts:
        for task, _ in chosen_kernels(optimize(mod, target), None, target):
            lower_function(task.function, task.name, target)
    return +counts


def page(found: dict[str, Counter[str]]) -> str:
    """docs/rules.md from the counts by network."""
    total = sum(found.values(), Counter())
    fire = [name for name in all_rules() if total[name]]
    rows = [f"| `{name}` | {total[name]} | {sum(name in of for of in found.values())} |" for name in fire]
    silent = [f"- `{name}`" for name in all_rules() if not total[name]]
    head = f"\nNetworks: {', '.join(found)}.\n\n| rule | fires | networks |\n|---|---:|---:|\n"
    return f"{INTRODUCTION}{head}{chr(10).join(rows)}\n\n## Not on these networks\n\n{chr(10).join(silent)}\n"


def main() -> None:
    """Count over the requested networks, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", help="networks, by commas (default: all of the benchmark set)")
    parser.add_argument("--folder", default=str(ROOT / "build" / "networks"), help="where networks are built")
    parser.add_argument("--write", action="store_true", help="write docs/rules.md")
    options = parser.parse_args()
    found = {}
    for name in options.names.split(",") if options.names else SETS["benchmark"]:
        path, shapes = model_file(name, Path(options.folder))
        found[name] = fired(import_model(str(path), shapes))
        print(f"{name}: {len(found[name])} rules", file=sys.stderr, flush=True)
    if options.write:
        PAGE.write_text(page(found))
    else:
        print(page(found))


if __name__ == "__main__":
    main()
