"""Random TFLite operators of integers, beside LiteRT's reference kernels, bit for bit.

    python -m bench.frontends.tflite_integers [--count 1000] [--data 10] [--seed 0] [--operators CONV_2D,ADD]
                                              [--together 25] [--interpreted] [--minutes 9] [--out FILE.jsonl]

A configuration is one operator of random types (int8, uint8, int16 with weights of 8 bits), scales, zero points,
shapes, strides, paddings, fused activations and weights; it is fed `--data` times with codes of the whole range. LiteRT
runs it as a model of its own. We compile `--together` of them as one model, for one of the instruction sets that this
processor runs; with `--interpreted` Relay's reference interpreter runs them instead. The oracle is
`OpResolverType.BUILTIN_REF`; LiteRT's default kernels (XNNPACK) are not exact. What LiteRT refuses to prepare or to run
is drawn again and not counted. A run goes on where it stopped. Prints a table: operator, configurations, cases
(configurations times data), elements, configurations that differ, are refused or raise; exits with status 1 where any
do.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.frontends.tflite_moves import MOVES
from bench.frontends.tflite_operators import PRODUCTS_AND_FUNCTIONS, Case, Random
from bench.fuzz.quantized_graphs import TARGETS
from tests.frontend.tflite.builder import beside, build, opened, outputs_of, random_input
from tilewright.driver.model.build import build_model
from tilewright.errors import UserError
from tilewright.frontend.tflite import from_tflite, initial_states
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.target import Target

Arrays = list[np.ndarray]
DRAWS = PRODUCTS_AND_FUNCTIONS | MOVES

#: Draws that LiteRT refuses, one after the other, before an operator counts as one that it does not have so.
_REFUSED_IN_A_ROW = 200


@dataclass
class Drawn:
    """A configuration: for each data set, for each run of it, what it is fed and what LiteRT returns."""

    seed: int
    case: Case
    feeds: list[list[Arrays]] = field(default_factory=list)
    wanted: list[list[Arrays]] = field(default_factory=list)


def drawn(name: str, first: int, data: int) -> Iterator[Drawn]:
    """The configurations of an operator from a seed on, which LiteRT runs."""
    refused, seed = 0, first
    while refused <= _REFUSED_IN_A_ROW:
        unique = zlib.crc32(f"{name} {seed}".encode())
        found = Drawn(seed, DRAWS[name](Random(unique)))
        refused += 1
        if _fill(found, np.random.default_rng(unique), data):
            refused = 0
            yield found
        seed += 1


def _fill(found: Drawn, numbers: np.random.Generator, data: int) -> bool:
    """Have LiteRT run a configuration on data sets that it takes; false where there is none such."""
    case = found.case
    try:
        kernels = opened(case.model, case.reference)
    except (ValueError, RuntimeError):
        return False
    details = kernels.get_input_details()
    for _ in range(2 * data):
        feeds = [[random_input(d, numbers, case.low, case.high) for d in details] for _ in range(case.runs)]
        try:
            kernels.reset_all_variables()
            wanted = [[np.array(value) for value in outputs_of(kernels, one)] for one in feeds]
        except (ValueError, RuntimeError):
            continue
        found.feeds.append(feeds)
        found.wanted.append(wanted)
        if len(found.feeds) == data:
            return True
    return False


def ours(group: Sequence[Drawn], target: str | None) -> list[list[list[Arrays]]]:
    """Our outputs of each configuration, data set and run, states carried on; interpreted without a target."""
    source = build(beside([one.case.graph for one in group]))
    module, specs = from_tflite(source)
    model = build_model(module, Target(target), 1, jobs=1) if target else None
    fresh = initial_states(source)
    found: list[list[list[Arrays]]] = [[] for _ in group]
    for number in range(len(group[0].feeds)):
        states = fresh
        for one in found:
            one.append([])
        for run in range(group[0].case.runs):
            feeds = [feed for one in group for feed in one.feeds[number][run]]
            given = {spec.name: feed for spec, feed in zip(specs, feeds)} | states
            results = [np.array(value) for value in (model.run(given) if model else interpret(module, given))]
            states = dict(zip(states, results[len(results) - len(states) :]))
            for one, row in zip(group, found):
                count = len(one.wanted[number][run])
                row[number].append(results[:count])
                results = results[count:]
    return found


def compared(one: Drawn, found: list[list[Arrays]]) -> tuple[int, str]:
    """(elements compared, first difference or nothing) of a configuration."""
    elements = 0
    for feeds, mine, theirs in zip(one.feeds, found, one.wanted):
        for fed, left, right in zip(feeds, mine, theirs):
            defined = one.case.defined(fed) if one.case.defined else np.True_
            for a, b in zip(left, right):
                elements += b.size if defined is np.True_ else int(defined.sum())
                if a.shape != b.shape or a.dtype != b.dtype:
                    return elements, f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
                wrong = (a != b) & ~((a != a) & (b != b)) & defined
                if wrong.any():
                    at = tuple(int(i) for i in np.argwhere(wrong)[0])
                    return elements, f"{wrong.sum()} of {wrong.size}, {list(at)}: {a[at]} instead of {b[at]}"
    return elements, ""


def judge(group: Sequence[Drawn], target: str | None) -> Iterator[dict[str, Any]]:
    """A row for each configuration; a group that raises is halved until it is one."""
    try:
        found = ours(group, target)
    except Exception as error:  # that is what is being looked for
        if len(group) > 1:
            half = len(group) // 2
            yield from judge(group[:half], target)
            yield from judge(group[half:], target)
            return
        outcome = "refused" if isinstance(error, UserError) else "raised"
        yield _row(group[0], target, outcome, 0, f"{type(error).__name__}: {error}")
        return
    for one, results in zip(group, found):
        elements, message = compared(one, results)
        yield _row(one, target, "differs" if message else "right", elements, message)


def _row(one: Drawn, target: str | None, outcome: str, elements: int, message: str) -> dict[str, Any]:
    row = {"seed": one.seed, "target": target or "interpreted", "outcome": outcome, "data": len(one.feeds),
           "elements": elements}  # fmt: skip
    return row if outcome == "right" else row | {"message": message[:300], "case": one.case.text}


def run_operator(name: str, args: argparse.Namespace, done: list[dict[str, Any]], deadline: float) -> None:
    """Add rows of an operator's configurations to `done` and to the file, up to the count."""
    first = 1 + max((row["seed"] for row in done), default=args.seed)
    source = drawn(name, first, args.data)
    while len(done) < args.count and time.monotonic() < deadline:
        size = min(args.together, args.count - len(done))
        group = [one for _, one in zip(range(size), source)]
        if not group:
            break
        chosen = random.Random(f"{name} {group[0].seed}").choice(TARGETS)
        rows = [{"operator": name, **row} for row in judge(group, None if args.interpreted else chosen)]
        done += rows
        if args.out:
            with args.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)


def shown(name: str, rows: list[dict[str, Any]]) -> str:
    """An operator's row of the table, and what was found."""
    counts = Counter(row["outcome"] for row in rows)
    figures = [len(rows), sum(row["data"] for row in rows), sum(row["elements"] for row in rows)]
    figures += [counts[outcome] for outcome in ("differs", "refused", "raised")]
    lines = [f"| {name} | {' | '.join(map(str, figures))} |"]
    wrong = [row for row in rows if row["outcome"] != "right"]
    lines += [f"    {row['seed']} {row['outcome']}: {row['message']} | {row['case']}" for row in wrong[:3]]
    return "\n".join(lines)


def main() -> None:
    """Run the operators and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="configurations of each operator")
    parser.add_argument("--data", type=int, default=10, help="data sets of each configuration")
    parser.add_argument("--together", type=int, default=25, help="configurations that are compiled as one model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operators", default="", help="these alone, by commas")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--interpreted", action="store_true", help="by the reference interpreter, not compiled")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    names = [name for name in args.operators.split(",") if name] or list(DRAWS)
    text = args.out.read_text() if args.out and args.out.exists() else ""
    before = [json.loads(line) for line in text.splitlines()]
    deadline, wrong = time.monotonic() + 60 * args.minutes, False
    print("| operator | configurations | cases | elements | differ | refused | raised |\n|---|---|---|---|---|---|---|")
    for name in names:
        rows = [row for row in before if row["operator"] == name]
        run_operator(name, args, rows, deadline)
        print(shown(name, rows), flush=True)
        wrong |= any(row["outcome"] != "right" for row in rows)
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
