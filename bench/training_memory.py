"""Steps within memory limits beside a step without: bytes between inputs and results, processor time, bits.

    python bench/training_memory.py [--only gpt] [--parts 0.5,0.35] [--rounds 20] [--seconds 60]

Each part is a limit, as a part of what the step takes without one. Steps are those of `training_step`, on one thread,
in turns; times are the least processor time. Exits with 1 where bits differ. Needs torch.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

import numpy as np
import torch
from training_steps import CASES, NativeStep


def main() -> None:
    """Measure the networks and the limits that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="gpt", help="networks")
    parser.add_argument("--parts", default="0.5", help="limits")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="most seconds of measuring a network")
    options = parser.parse_args()
    equal = [
        measure(name, [float(part) for part in options.parts.split(",")], options) for name in options.only.split(",")
    ]
    sys.exit(not all(equal))


def measure(name: str, parts: list[float], options: argparse.Namespace) -> bool:
    """Print what the limits cost; True where all bits are those of the step without."""
    torch.manual_seed(0)
    module = CASES[name].make()
    whole = NativeStep(module, CASES[name], 1)
    nbytes = plan_of(whole).arena_bytes
    steps = {1.0: whole, **{part: NativeStep(module, CASES[name], 1, int(part * nbytes)) for part in parts}}
    batch, least = CASES[name].batch(0), dict.fromkeys(steps, math.inf)
    losses: dict[float, list[Any]] = {part: [] for part in steps}
    ends = time.perf_counter() + options.seconds
    for index in range(options.rounds):
        for part, step in steps.items():
            began = time.process_time()
            losses[part].append(np.array(step(*batch)))
            least[part] = min(least[part], time.process_time() - began)
        if index and time.perf_counter() > ends:
            break
    same = {
        part: np.array_equal(losses[part], losses[1.0]) and values(step) == values(whole)
        for part, step in steps.items()
    }
    for part, step in steps.items():
        plan = plan_of(step)
        print(
            f"{name}: {plan.arena_bytes / 1e6:8.2f} MB, {plan.arena_bytes / nbytes:.2f} of without a limit; "
            f"{len(plan.kernels)} kernels, {least[part] * 1e3:.1f} ms, {least[part] / least[1.0]:.2f} times; "
            f"{'the same bits' if same[part] else 'OTHER BITS'}",
            flush=True,
        )
    return all(same.values())


def plan_of(step: NativeStep) -> Any:
    """The execution plan of a step."""
    return step.model.manifest.plans[0]


def values(step: NativeStep) -> dict[str, bytes]:
    """The bytes of the parameters, by their names."""
    return {name: value.tobytes() for name, value in step.trainer.parameters.items()}


if __name__ == "__main__":
    main()
