"""Random ONNX graphs on Tilewright, beside onnxruntime and ONNX's own evaluator.

    python -m bench.fuzz.graphs --count 2000 --seed 0 [--jobs 2] [--out FOLDER] [--operators Conv,Pad] [--minutes 4]
                                [--target opencl]

Each seed is a graph of at most 20 nodes over all operators, element types and opsets from 7 on, with what it is fed and
how it is compiled. Outcomes go to FOLDER/outcomes.jsonl, so a run that was ended goes on where it stopped; what fails
is made small and written to FOLDER/findings as text, and as a case that `--again FILE` runs. With a target, results are
compared with ours on the processor too. Prints a table of outcomes, and exits with status 1 where one is wrong, a
crash, a raw exception, a hang, or refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from bench.fuzz.case import Case
from bench.fuzz.causes import cause_of_disagreement
from bench.fuzz.minimize import minimize
from bench.fuzz.operators import draw_case
from bench.fuzz.processes import Worker
from bench.fuzz.worker import (
    CRASH,
    DISAGREE,
    OPEN,
    OUTCOMES,
    RAW,
    REFUSED,
    RIGHT,
    TIMEOUT,
    UNSETTLED,
    WRONG,
    Outcome,
    normalized,
)

FINDINGS = (WRONG, CRASH, RAW, REFUSED, TIMEOUT)


class Record:
    """The outcomes of a run, on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "findings").mkdir(parents=True, exist_ok=True)
        self._path = folder / "outcomes.jsonl"
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.outcomes = {entry["seed"]: Outcome.of(entry) for entry in map(json.loads, lines)}

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; the line is whole or not there."""
        self.outcomes[outcome.seed] = outcome
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")

    def write(self, outcome: Outcome, case: Case) -> None:
        """Write a finding as text and as a case."""
        stem = self.folder / "findings" / f"{outcome.outcome.replace(' ', '_')}-{outcome.seed}"
        stem.with_suffix(".txt").write_text(f"{outcome.outcome}: {outcome.message}\n{case.text()}")
        case.save(stem.with_suffix(".case"))


def same_failure(worker: Worker, outcome: Outcome, folder: Path) -> Callable[[Case], bool]:
    """True if a smaller case fails as the first did."""

    def fails(case: Case) -> bool:
        path = folder / f"trial-{outcome.seed}.case"
        case.save(path)
        found = worker.run(str(path))
        path.unlink()
        exact = outcome.outcome in (RAW, REFUSED)
        return found.outcome == outcome.outcome and (
            not exact or normalized(found.message)[:60] == normalized(outcome.message)[:60]
        )

    return fails


def run_seed(
    seed: int, worker: Worker, record: Record, operators: tuple[str, ...], smaller: bool, target: str = "cpu"
) -> Outcome:
    """Run one seed; what fails is made small and written."""
    if operators:
        path = record.folder / f"draw-{seed}.case"
        draw_case(seed, operators).on(target).save(path)
        outcome = worker.run(str(path))
        outcome = Outcome(**(asdict(outcome) | {"seed": seed}))
        path.unlink()
    else:
        outcome = worker.run(seed)
    if outcome.outcome in (*FINDINGS, DISAGREE):
        case = draw_case(seed, operators).on(target)
        if smaller:
            case = minimize(case, same_failure(worker, outcome, record.folder))
        record.write(outcome, case)
        outcome = Outcome(**(asdict(outcome) | {"operators": tuple(case.operators())}))
    record.add(outcome)
    return outcome


def run(
    seeds: Iterable[int],
    record: Record,
    jobs: int = 1,
    minutes: float = 1e9,
    operators: tuple[str, ...] = (),
    smaller: bool = True,
    timeout: float = 60.0,
    target: str = "cpu",
) -> None:
    """Run the seeds that the record lacks, until they or the minutes are over."""
    left: SimpleQueue[int] = SimpleQueue()
    for seed in seeds:
        if seed not in record.outcomes:
            left.put(seed)
    deadline = time.monotonic() + 60 * minutes

    def work(_: int) -> None:
        worker = Worker(timeout, arguments=(target,))
        try:
            while not left.empty() and time.monotonic() < deadline:
                outcome = run_seed(left.get(), worker, record, operators, smaller, target)
                if outcome.outcome in FINDINGS:
                    print(f"seed {outcome.seed}: {outcome.outcome}: {' '.join(outcome.operators)}: ", end="")
                    print(" ".join(outcome.message.split())[:200], flush=True)
        finally:
            worker.close()

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, range(jobs)))


def table(outcomes: Iterable[Outcome]) -> str:
    """Counts of outcomes, the findings by message, and the disagreements of the references by cause."""
    found = list(outcomes)
    counts = Counter(outcome.outcome for outcome in found)
    rows = ["| outcome | graphs |", "|---|---|", *(f"| {name} | {counts[name]} |" for name in OUTCOMES if counts[name])]
    references = Counter(" and ".join(o.references) for o in found if o.outcome == RIGHT)
    rows += [f"| … right beside {names} | {count} |" for names, count in references.most_common()]
    groups = Counter(
        (o.outcome, normalized(o.message)) for o in found if o.outcome in (*FINDINGS, OPEN, UNSETTLED, DISAGREE)
    )
    rows += ["", "| finding | message | graphs |", "|---|---|---|"]
    rows += [f"| {outcome} | {message} | {count} |" for (outcome, message), count in groups.most_common()]
    causes = Counter((part, cause_of_disagreement(part)) for o in found for part in o.disagreement.split("; ") if part)
    rows += ["", "| the references disagree in | because | graphs |", "|---|---|---|"]
    rows += [f"| {where} | {cause} | {count} |" for (where, cause), count in causes.most_common()]
    return "\n".join(rows)


def main() -> None:
    """Run the seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="end after so many, to go on another time")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--operators", default="", help="draw these alone")
    parser.add_argument("--target", default="cpu", help="what to compile for, such as opencl")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of a worker's own time for a graph")
    parser.add_argument("--whole", action="store_true", help="leave findings as large as they are")
    parser.add_argument("--again", type=Path, help="run the case of a finding")
    args = parser.parse_args()
    if args.again:
        outcome = Worker(args.timeout).run(str(args.again))
        print(Case.load(args.again).text())
        print(f"{outcome.outcome}: {outcome.message} {outcome.disagreement}")
        return
    record = Record(args.out)
    seeds = range(args.seed, args.seed + args.count)
    operators = tuple(filter(None, args.operators.split(",")))
    run(seeds, record, args.jobs, args.minutes, operators, not args.whole, args.timeout, args.target)
    found = [record.outcomes[seed] for seed in seeds if seed in record.outcomes]
    print(table(found))
    if any(o.outcome in FINDINGS for o in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
