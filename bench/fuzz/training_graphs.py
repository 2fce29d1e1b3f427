"""Random training graphs beside PyTorch: one step each of networks that are drawn, loss and all gradients compared.

    python -m bench.fuzz.training_graphs [--count 2000] [--seed 0] [--minutes 60] [--out build/fuzz-training]

Outcomes are kept in a file, so that a run goes on where the last one ended; those other than "right" are printed, and
counted at the end. Exits with 1 where there are such. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from bench.fuzz.processes import Worker
from bench.fuzz.worker import NO_REFERENCE, RIGHT, Outcome

_WORKER = "bench.fuzz.training_worker"


def survey(seeds: range, path: Path | None, minutes: float = 1e9, timeout: float = 120.0) -> list[Outcome]:
    """The outcomes of `seeds`, those in the file `path` included; ends after so many minutes, to go on another time."""
    found: dict[int, Outcome] = {}
    if path is not None and path.exists():
        found = {one.seed: one for one in map(Outcome.of, map(json.loads, path.read_text().splitlines()))}
    worker, ends = Worker(timeout, _WORKER), time.monotonic() + 60 * minutes
    try:
        for seed in seeds:
            if seed in found or time.monotonic() > ends:
                continue
            found[seed] = outcome = worker.run(seed)
            if path is not None:
                with path.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            if outcome.outcome != RIGHT:
                print(
                    f"seed {seed}: {outcome.outcome}: {outcome.message[:400]} ({' '.join(outcome.operators)})",
                    flush=True,
                )
    finally:
        worker.close()
    return [found[seed] for seed in seeds if seed in found]


def main() -> None:
    """Run the seeds and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz-training"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    seeds = range(options.seed, options.seed + options.count)
    counts = Counter(one.outcome for one in survey(seeds, options.out / "outcomes.jsonl", options.minutes))
    for outcome, count in counts.most_common():
        print(f"{outcome}: {count}")
    if set(counts) - {RIGHT, NO_REFERENCE}:
        sys.exit(1)


if __name__ == "__main__":
    main()
