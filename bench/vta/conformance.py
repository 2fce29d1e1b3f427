"""Random legal programs on all simulators and the RTL, bit for bit, and illegal ones against the checker.

    python bench/vta/conformance.py [--programs 10000] [--illegal 1200] [--first 0] [--without rtl]

Programs, and what they must compute, come from the generator and the sequential oracle of the tests, at two
configurations by turns. The checker sees each program first.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.vta.test_programs import KINDS, broken, made
from tilewright.errors import ProgramError
from tilewright.vta import check_program, pack
from tilewright.vta.dram import Dram
from tilewright.vta.driver import open_driver

_DRAM = 1 << 14


def run_all(seed: int, kinds: list[str]) -> list[int]:
    """Cycles by those drivers that know time; `SystemExit` where one returns another result."""
    isa, program, _, dram, expected = made(seed)
    code = np.frombuffer(pack(isa, program), np.uint8)
    check_program(isa, code.tobytes(), dram)
    cycles = []
    for kind in kinds:
        memory = Dram(isa, _DRAM)
        memory.data[: dram.size] = dram
        memory.data[dram.size : dram.size + code.size] = code
        counters = open_driver(kind, isa, memory).run(dram.size, len(program))
        if not np.array_equal(memory.data[: dram.size], expected):
            raise SystemExit(f"program {seed} on {kind}: DRAM differs from the oracle's")
        if "cycles" in counters:
            cycles.append(counters["cycles"])
    return cycles


def refused(count: int) -> Counter[str]:
    """Illegal programs by the rule that the checker named; `SystemExit` where it is not the one that was broken."""
    found: Counter[str] = Counter()
    for number in range(count):
        kind, seed = KINDS[number % len(KINDS)], 100_000 + number
        isa, _, fields, dram, _ = made(seed)
        data = broken(kind, isa, fields, random.Random(seed))
        try:
            check_program(isa, data, dram)
        except ProgramError as error:
            if error.kind != kind:
                raise SystemExit(f"program {seed}: {kind} was broken, and the checker says {error.kind}") from error
            found[kind] += 1
        else:
            raise SystemExit(f"program {seed}: {kind} was broken, and the checker accepts it")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--illegal", type=int, default=1_200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--without", action="append", default=[])
    given = parser.parse_args()
    kinds = [kind for kind in ("native", "checked", "cycle", "rtl") if kind not in given.without]
    times = []
    for seed in range(given.first, given.first + given.programs):
        times.append(run_all(seed, kinds))
        if (seed + 1 - given.first) % 1000 == 0:
            print(f"{seed + 1 - given.first} programs agree on {', '.join(kinds)}", flush=True)
    if {"cycle", "rtl"} <= set(kinds):
        model, chip = np.array(times).T
        print(
            f"cycles of all: {model.sum()} modelled, {chip.sum()} on the RTL; worst {abs(model / chip - 1).max():.1%}"
        )
    print(f"refused by the checker: {sum(refused(given.illegal).values())} of {given.illegal} illegal programs")


if __name__ == "__main__":
    main()
