"""Time networks as two checkouts of this project compile them, in turns, beside a second copy of the older as control.

    python bench/checkouts.py OLDER [--threads 1,2] [--seconds 20] [--only resnet18,mlp] [--smoke]

OLDER is a folder that holds another state of the project (`git worktree add OLDER COMMIT`). Three processes compile
each network: of OLDER, of OLDER again, and of this checkout. They run in turns, a few calls each, so that what else the
machine does meets all three. Printed is the median over the turns of each process's time over the first's, with an
interval that holds it 95 times in 100; a difference counts where it is beyond that of the control.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from networks import NETWORKS, ROOT, model_file
from report import geometric_mean, machine, table, thread_counts

#: Seconds of calls in one turn of one process.
_TURN = 0.1


def serve(path: str, threads: int) -> None:
    """Compile the model, then answer each line, a number of calls, by the least seconds of one."""
    import numpy as np

    import tilewright as tw

    executable = tw.compile(path, threads=threads)
    generator = np.random.default_rng(0)
    feeds = {}
    for spec in executable.inputs:
        shape = [size if isinstance(size, int) else 1 for size in spec.shape]
        whole = str(spec.dtype).startswith(("int", "uint", "bool"))
        values = generator.integers(0, 2, shape) if whole else generator.standard_normal(shape)
        feeds[spec.name] = values.astype(spec.dtype)
    executable.run(feeds)
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            executable.run(feeds)
            times.append(time.perf_counter() - start)
        print(min(times), flush=True)


class Side:
    """One process: a network as one checkout compiles it."""

    def __init__(self, checkout: Path, model: Path, threads: int) -> None:
        source = str(checkout / "src")
        known = {**os.environ, "PYTHONPATH": source, "TILEWRIGHT_CACHE_DIR": str(model.parent / "cache")}
        command = [sys.executable, __file__, str(checkout), "--serve", str(model), "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=known, cwd=checkout
        )
        self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args!r}: ended early")
        return line

    def seconds(self, calls: int) -> float:
        """The least time of one of `calls` calls."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def median_with_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and an interval that holds it 95 times in 100 (by ranks, whatever the distribution)."""
    ordered = sorted(values)
    n = len(ordered)
    reach = math.ceil(0.98 * math.sqrt(n)) + 1
    low, high = max(0, n // 2 - reach), min(n - 1, n // 2 + reach)
    return statistics.median(ordered), ordered[low], ordered[high]


def compare(older: Path, model: Path, threads: int, seconds: float) -> tuple[float, list[tuple[float, float, float]]]:
    """Seconds of the older checkout, and the ratios of the control and of this checkout to it."""
    sides = [Side(folder, model, threads) for folder in (older, older, ROOT)]
    try:
        calls = max(1, round(_TURN / sides[0].seconds(3)))
        end = time.monotonic() + seconds
        turns: list[list[float]] = []
        while len(turns) < 3 or time.monotonic() < end:
            order = [(len(turns) + i) % 3 for i in range(3)]
            found = {i: sides[i].seconds(calls) for i in order}
            turns.append([found[i] for i in range(3)])
    finally:
        for side in sides:
            side.close()
    ratios = [median_with_interval([turn[i] / turn[0] for turn in turns]) for i in (1, 2)]
    return statistics.median(turn[0] for turn in turns), ratios


def main() -> None:
    """Run each network in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", type=Path)
    parser.add_argument("--threads", type=thread_counts, default=(1, 2))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each network on each number of threads")
    parser.add_argument("--only", default=",".join(NETWORKS), help="names, separated by commas")
    parser.add_argument("--folder", default=str(ROOT / "build" / "networks"))
    parser.add_argument("--smoke", action="store_true", help="the smallest network, a few rounds")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.threads[0])
        return
    if args.smoke:
        args.only, args.seconds, args.threads = "mlp", 0.1, (1,)
    rows, found = [], []
    for name in args.only.split(","):
        path, _ = model_file(name, Path(args.folder))
        for threads in args.threads:
            base, ratios = compare(args.older.resolve(), path.resolve(), threads, args.seconds)
            cells = [f"{middle:.3f} ({low:.3f}–{high:.3f})" for middle, low, high in ratios]
            rows.append([name, str(threads), f"{base * 1e3:.3f}", *cells])
            found.append(ratios[1][0])
            print(" | ".join(rows[-1]), flush=True)
    print(f"\nOn {machine()}; ratios of times to those of the older checkout, above 1 is slower.\n")
    print(table(["model", "threads", "older ms", "older again", "this"], rows))
    print(f"Geometric mean of the ratios: {geometric_mean(found):.4f}; largest {max(found):.3f}.")


if __name__ == "__main__":
    main()
