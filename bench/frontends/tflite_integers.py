"""Random TFLite models of one integer operator, beside LiteRT's reference kernels, bit for bit.

    python -m bench.frontends.tflite_integers [--count 2000] [--seed 0] [--operators CONV_2D,ADD] [--minutes 9]
                                              [--compiled 20] [--out FILE.json]

Each case is a model of its own: types (int8, uint8, int16 with weights of 8 bits), scales, zero points, shapes,
strides, paddings, fused activations, over data of the whole range. Models run in the reference interpreter of Relay,
which is what compiled code is compared with elsewhere; one of `--compiled` is compiled instead. The oracle is
`OpResolverType.BUILTIN_REF`; LiteRT's default kernels (XNNPACK) are not exact. A case that LiteRT refuses to prepare is
drawn again and not counted. Prints a table: operator, cases, elements, those that differ, those refused by us.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from bench.frontends.tflite_operators import DRAWS, Case, Random
from tests.frontend.tflite.builder import opened, outputs_of, random_input
from tilewright.errors import UserError
from tilewright.frontend.tflite import from_tflite, initial_states
from tilewright.relay.interpreter.interpreter import interpret

#: Draws that LiteRT refuses, one after the other, before an operator counts as one that it does not have so.
_REFUSED_IN_A_ROW = 200


def ours(case: Case, runs: list[list[np.ndarray]], compiled: bool) -> list[list[np.ndarray]]:
    """Our outputs of each run, states carried on."""
    module, specs = from_tflite(case.model)
    executable = tw.compile(module, cache=False) if compiled else None
    states, found = initial_states(case.model), []
    for feeds in runs:
        given = {spec.name: feed for spec, feed in zip(specs, feeds)} | states
        results = [np.asarray(v) for v in (executable.run(given) if executable else interpret(module, given))]
        count = len(results) - len(states)
        states = dict(zip(states, results[count:]))
        found.append(results[:count])
    return found


def judge(case: Case, seed: int, compiled: bool) -> tuple[str, int, str]:
    """(outcome, elements compared, message) of a case."""
    random = np.random.default_rng(seed)
    try:
        kernels = opened(case.model)
        runs = [
            [random_input(detail, random, case.low, case.high) for detail in kernels.get_input_details()]
            for _ in range(case.runs)
        ]
        wanted = [[np.array(value) for value in outputs_of(kernels, feeds)] for feeds in runs]
    except (ValueError, RuntimeError) as error:
        return "not drawn", 0, str(error)
    try:
        found = ours(case, runs, compiled)
    except UserError as error:
        return "refused", 0, str(error)
    except Exception as error:  # that is what is being looked for
        return "raised", 0, f"{type(error).__name__}: {error}"
    elements = 0
    masks = [case.defined(feeds) if case.defined else np.True_ for feeds, run in zip(runs, wanted) for _ in run]
    for mine, theirs, defined in zip((v for run in found for v in run), (v for run in wanted for v in run), masks):
        elements += theirs.size if defined is np.True_ else int(defined.sum())
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return "differs", elements, f"{mine.dtype}{mine.shape} instead of {theirs.dtype}{theirs.shape}"
        wrong = (mine != theirs) & ~((mine != mine) & (theirs != theirs)) & defined
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return "differs", elements, f"{wrong.sum()} of {wrong.size}, {list(at)}: {mine[at]} instead of {theirs[at]}"
    return "right", elements, ""


def run_operator(
    name: str, draw: Callable[[Random], Case], args: argparse.Namespace, deadline: float
) -> dict[str, Any]:
    """The counts of an operator's cases."""
    counts: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    examples: list[str] = []
    elements, seed, idle = 0, args.seed, 0
    while counts["right"] + counts["differs"] + counts["refused"] + counts["raised"] < args.count:
        if time.monotonic() > deadline or idle > _REFUSED_IN_A_ROW:
            break
        seed += 1
        unique = zlib.crc32(f"{name} {seed}".encode())
        case = draw(Random(unique))
        compiled = bool(args.compiled) and seed % args.compiled == 0
        outcome, size, message = judge(case, unique, compiled)
        idle = idle + 1 if outcome == "not drawn" else 0
        counts[outcome] += 1
        counts["compiled"] += compiled and outcome == "right"
        elements += size
        if outcome in ("differs", "raised", "refused"):
            messages[f"{outcome}: {message.split(',')[0][:80] if outcome == 'differs' else message[:160]}"] += 1
            examples.append(f"{unique} {case.text} | {message[:200]}")
    return {"operator": name, "elements": elements, **counts, "messages": messages.most_common(3),
            "examples": examples[:8]}  # fmt: skip


def main() -> None:
    """Run the operators and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operators", default="", help="these alone, by commas")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--compiled", type=int, default=0, help="compile one of so many cases; 0 for none")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    names = [name for name in args.operators.split(",") if name] or list(DRAWS)
    deadline, rows = time.monotonic() + 60 * args.minutes, []
    print(
        "| operator | cases | elements | differ | refused | raised | compiled |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in names:
        row = run_operator(name, DRAWS[name], args, deadline)
        rows.append(row)
        cases = sum(row.get(key, 0) for key in ("right", "differs", "refused", "raised"))
        shown = [cases, row["elements"], *(row.get(k, 0) for k in ("differs", "refused", "raised", "compiled"))]
        print(f"| {name} | {' | '.join(map(str, shown))} |", flush=True)
        for message, count in row["messages"]:
            print(f"    {count} × {message}")
        for example in row["examples"][:3]:
            print(f"        {example}", flush=True)
        if args.out:
            args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
