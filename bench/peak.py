"""Print what this machine can do: its multiply-add peak and its memory bandwidth, for each number of threads.

    python bench/peak.py [--threads 1,2] [--seconds 0.5] [--json FILE] [--smoke]

The kernels are loop IR, compiled by the code generator of every model (`tilewright.cli.peak`). Bandwidth is of a memory
area that all threads share out: half of one core's L2, half of the L3, and eight times the L3 (at least 256 MiB).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from report import machine, table, thread_counts

from tilewright.cli.peak import copy_bandwidth, dot_peak, fma_peak, memory_sizes, read_bandwidth, tile_peak

_PEAKS = {"fma": "FMA peak, GFLOP/s", "tile": "the same beside a product's loads", "dot": "int8 dot product peak, G/s"}


def measure_machine(threads: int, seconds: float, sizes: dict[str, int]) -> dict[str, float]:
    """The figures of a number of threads: "fma", "tile", "dot" in 10^9 a second, "read L2", "copy DRAM"... in GB/s."""
    peaks = {"fma": fma_peak, "tile": tile_peak, "dot": dot_peak}
    figures = {name: peak(threads, seconds) for name, peak in peaks.items()}
    for level, nbytes in sizes.items():
        figures[f"read {level}"] = read_bandwidth(nbytes, threads, seconds)
        figures[f"copy {level}"] = copy_bandwidth(nbytes, threads, seconds)
    return figures


def markdown(figures: dict[int, dict[str, float]]) -> str:
    """A table with one row per figure and one column per number of threads."""
    names = next(iter(figures.values()))
    rows = [[_PEAKS.get(name, f"{name}, GB/s"), *(f"{f[name]:.1f}" for f in figures.values())] for name in names]
    return table(["", *(f"{n} thread{'s' if n > 1 else ''}" for n in figures)], rows)


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=thread_counts, default=(1, 2))
    parser.add_argument("--seconds", type=float, default=0.5, help="of each figure")
    parser.add_argument("--json")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that everything runs")
    args = parser.parse_args()
    sizes = dict.fromkeys(memory_sizes(), 1 << 18) if args.smoke else memory_sizes()
    seconds = 0.01 if args.smoke else args.seconds
    figures = {threads: measure_machine(threads, seconds, sizes) for threads in args.threads}
    print(f"{machine()}\n\n{markdown(figures)}")
    if args.json:
        Path(args.json).write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
