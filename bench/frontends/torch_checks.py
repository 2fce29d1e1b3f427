"""Cost of index checks in `torch.compile(backend="tilewright")`: a graph with the option "checks" and without.

    python bench/frontends/torch_checks.py [--seconds 4] [PATTERN ...]

Both run in turns, a round each, and the ratio of medians is printed, with that of the same graph without checks to a
copy of itself as a control. Needs torch and a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.nn.functional as nn


def _language_model(ids: Any, targets: Any, table: Any, weight: Any) -> Any:
    hidden = nn.embedding(ids, table)
    hidden = hidden + torch.tanh(hidden @ weight)
    return nn.cross_entropy((hidden @ table.mT).flatten(0, 1), targets.flatten())


def _cases() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    torch.manual_seed(0)
    table, rows = torch.randn(8000, 256), torch.randint(0, 8000, (4, 128))
    wide = torch.randn(1000, 1000)
    spread = torch.randint(0, 1000, (1000, 1000))
    return {
        "a row": (lambda x, i: x[i], [torch.randn(64, 16), torch.tensor([3])]),
        "embedding of 512": (lambda x, i: nn.embedding(i, x), [table, rows]),
        "language model": (_language_model, [rows, rows.roll(1), table, torch.randn(256, 256)]),
        "cross_entropy of 32 x 1000": (nn.cross_entropy, [wide[:32].clone(), torch.randint(0, 1000, (32,))]),
        "index_select": (lambda x, i: x.index_select(0, i), [wide, torch.randint(0, 1000, (1000,))]),
        "gather of a million": (lambda x, i: x.gather(1, i), [wide, spread]),
        "scatter_add of a million": (lambda x, i: x.scatter_add(1, i, x), [wide, spread]),
        "x[i, j] of a million": (lambda x, i: x[i, i], [wide, spread]),
    }


def main() -> None:
    """Print a line for each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of graphs (regular expressions)")
    parser.add_argument("--seconds", type=float, default=4, help="how long a graph is measured")
    options = parser.parse_args()
    for name, (function, given) in _cases().items():
        if options.patterns and not any(re.search(pattern, name) for pattern in options.patterns):
            continue
        runs = []
        for checks in (True, False, False):
            torch._dynamo.reset()
            # distinct functions, for Dynamo keeps what it compiled by the code of a function
            runs.append(torch.compile(function, backend="tilewright", options={"checks": checks, "threads": 1}))
        times: list[list[float]] = [[], [], []]
        with torch.no_grad():
            for run in runs:
                run(*given)
            end = time.perf_counter() + options.seconds
            while time.perf_counter() < end:
                for run, found in zip(runs, times):
                    began = time.perf_counter()
                    run(*given)
                    found.append(time.perf_counter() - began)
        checked, plain, control = (median(one) for one in times)
        print(
            f"{name:28} {plain * 1e6:9.1f} us, checked {checked / plain - 1:+7.2%}, control {control / plain - 1:+7.2%}"
        )


if __name__ == "__main__":
    sys.exit(main())
