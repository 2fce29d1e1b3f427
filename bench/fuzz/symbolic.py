"""Random ONNX graphs with symbolic sizes, each compiled once and run at 20 sizes, 0 and 1 among them.

    python -m bench.fuzz.symbolic --count 1000 --seed 0 [--out FOLDER] [--minutes 10]

A seed is a graph of `bench.fuzz.graphs` some of whose sizes are symbolic. Each runs in a process that may die, beside
onnxruntime, ONNX's evaluator and the same graph with fixed sizes (`symbolic_worker.py`). Outcomes go to
FOLDER/outcomes.jsonl, so a run that was ended goes on where it stopped. Prints how many graphs and sizes ended how, and
exits with status 1 where one is wrong, a crash, a raw exception, a hang, or run without meaning.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.fuzz.graphs import Record
from bench.fuzz.processes import Worker
from bench.fuzz.symbolic_worker import MEANINGLESS, NOT_COMPILED, OUTCOMES, REFUSED_SIZES
from bench.fuzz.worker import CRASH, INVALID, NO_REFERENCE, RAW, TIMEOUT, WRONG, Outcome, normalized

FINDINGS = (CRASH, TIMEOUT, RAW, WRONG, MEANINGLESS)


def run(seeds: Iterable[int], record: Record, minutes: float = 1e9, timeout: float = 120.0) -> None:
    """Run the seeds that the record lacks, until they or the minutes are over."""
    worker, deadline = Worker(timeout, "bench.fuzz.symbolic_worker"), time.monotonic() + 60 * minutes
    try:
        for seed in seeds:
            if seed in record.outcomes:
                continue
            if time.monotonic() > deadline:
                break
            outcome = worker.run(seed)
            record.add(outcome)
            if outcome.outcome in FINDINGS:
                shown = " ".join(outcome.message.split())[:300]
                print(f"seed {seed}: {outcome.outcome}: {' '.join(outcome.operators)}: {shown}", flush=True)
    finally:
        worker.close()


def table(outcomes: Iterable[Outcome]) -> str:
    """Counts of graphs and sizes by outcome, and the messages of findings and refusals."""
    found = [outcome for outcome in outcomes if outcome.outcome != INVALID]
    graphs = Counter(outcome.outcome for outcome in found)
    sizes: Counter[str] = Counter()
    for outcome in found:
        sizes.update(outcome.counts)
    rows = ["| outcome | graphs, by their worst | sizes |", "|---|---|---|"]
    rows += [
        f"| {name} | {graphs[name]} | {sizes[name]} |"
        for name in (CRASH, TIMEOUT, *OUTCOMES, NO_REFERENCE)
        if graphs[name] or sizes[name]
    ]
    rows.append(f"| all | {len(found)} | {sizes.total()} |")
    shown = (*FINDINGS, REFUSED_SIZES, NOT_COMPILED)
    groups = Counter((o.outcome, normalized(_reason(o.message))) for o in found if o.outcome in shown)
    rows += ["", "| outcome | message | graphs |", "|---|---|---|"]
    rows += [f"| {outcome} | {message} | {count} |" for (outcome, message), count in groups.most_common()]
    return "\n".join(rows)


def _reason(message: str) -> str:
    """A message without the sizes that it begins with."""
    return message.partition("}: ")[2] or message


def main() -> None:
    """Run the seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="end after so many, to go on another time")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz-symbolic"))
    args = parser.parse_args()
    record = Record(args.out)
    seeds = range(args.seed, args.seed + args.count)
    run(seeds, record, args.minutes)
    found = [record.outcomes[seed] for seed in seeds if seed in record.outcomes]
    print(table(found))
    if any(outcome.outcome in FINDINGS for outcome in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
