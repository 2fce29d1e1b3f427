"""Random quantized graphs on Tilewright, beside exact arithmetic.

    python -m bench.fuzz.quantized_graphs --count 5000 [--seed 0] [--every] [--out FILE.jsonl] [--minutes 9]

Each seed is a chain of QDQ groups, QLinear operators, integer products and weights of a few bits (scales, zero points,
axes, types, ties), compiled for one of the instruction sets that this processor runs, with the graph passes or without;
with `--every` for all of them. A result is wrong where it lies beyond what float32 arithmetic in any order can yield:
codes are so to the bit but beside a tie (`bench.fuzz.exact`). A run goes on where it stopped. Prints a table, and exits
with status 1 where a graph is wrong, raises or is refused.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.fuzz.exact import Array, Bounded, difference, shares
from bench.fuzz.quantized_chain import Chain, Codes, Named, Unfit
from bench.fuzz.quantized_operators import OF_CODES, OF_REALS
from tilewright.driver.model.build import build_model
from tilewright.errors import UserError
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.target import Target

#: Processors by what their kernels of bytes are made of: AMX, VNNI, AVX-512 and AVX2 without, SSE4; as far as they run.
TARGETS = (
    "cpu", "llvm -mcpu=icelake-server", "llvm -mcpu=skylake-avx512", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2",
)  # fmt: skip
LEVELS = (3, 0)
RIGHT, WRONG, RAISED, REFUSED = "right", "wrong", "raised", "refused"


@dataclass(frozen=True)
class Drawn:
    """A graph with what it is fed, and its results in exact arithmetic."""

    model: onnx.ModelProto
    feeds: dict[str, Array]
    wanted: dict[str, Bounded]


def draw(seed: int) -> Drawn:
    """The graph of a seed."""
    chain = Chain(seed)
    current: Codes | Named = _first(chain)
    outputs: list[Named] = []
    steps = chain.choice([1, 1, 2, 2, 3, 4])
    for _ in range(8 * steps):
        if steps == 0:
            break
        kept = (len(chain.nodes), len(chain.constants))
        try:
            if isinstance(current, Named):
                current = chain.quantize(current) if chain.chance(0.7) else chain.choice(OF_REALS)(chain, current)
            else:
                current = chain.choice(OF_CODES)(chain, current)
                steps -= 1
        except Unfit:
            del chain.nodes[kept[0] :], chain.constants[kept[1] :]
            continue
        if chain.chance(0.2):
            outputs.append(_named(current))
    if isinstance(current, Named) and chain.chance(0.7):
        current = chain.quantize(current)
    last = chain.dequantize(current) if isinstance(current, Codes) and chain.chance(0.2) else _named(current)
    outputs = list({value.name: value for value in [*outputs, last]}.values())
    feeds = {value.name: array for value, array in chain.inputs}
    return Drawn(chain.model(outputs), feeds, {value.name: value.bounded for value in outputs})


def _named(value: Codes | Named) -> Named:
    return value.codes if isinstance(value, Codes) else value


def _first(chain: Chain) -> Codes | Named:
    """The input: float32 to be quantized, or codes."""
    sizes = chain.choice(
        [
            (chain.choice([3, 4, 8, 16, 17, 32, 64]), *chain.choice([(5, 5), (7, 7), (8, 8), (9, 6), (13,), (1, 11)])),
            (chain.choice([4, 7, 12, 16]), chain.choice([8, 16, 20, 33, 64])),
            (chain.choice([5, 16, 31, 64, 128]),),
        ]
    )
    shape = (chain.batch, *sizes)
    if chain.chance(0.4):
        dtype = chain.choice(["uint8", "int8"])
        codes = chain.input(chain.codes(shape, dtype).astype(dtype))
        return Codes(codes, chain.constant(np.float32(chain.scale_near(0.05))), chain.zero_point(dtype))
    data = chain.numbers.integers(-640, 640, shape) / 128 if chain.binary else chain.numbers.normal(0, 2, shape)
    return chain.input(data.astype(np.float32))


def run(drawn: Drawn, target: str, level: int, threads: int = 1) -> tuple[str, str]:
    """The outcome of a graph compiled so, with a message."""
    try:
        with PassContext(opt_level=level):
            module, _ = from_onnx(drawn.model, None)
            model = build_model(module, Target(target), threads, jobs=1)
        found = model.run(dict(drawn.feeds))
    except UserError as error:
        return REFUSED, f"{type(error).__name__}: {error}"
    except Exception as error:  # that is what is being looked for
        return RAISED, f"{type(error).__name__}: {error}"
    faults = [
        f"{name}: {difference(np.asarray(ours), exact)}" for (name, exact), ours in zip(drawn.wanted.items(), found)
    ]
    wrong = [fault for fault in faults if not fault.endswith(": ")]
    return (WRONG, wrong[0]) if wrong else (RIGHT, "")


def variants(seed: int, every: bool) -> list[tuple[str, int]]:
    """The target and level of a seed, or all of them."""
    found = [(target, level) for target in TARGETS for level in LEVELS]
    if every:
        return found
    chosen = random.Random(f"variant {seed}")
    return [(chosen.choice(TARGETS), chosen.choices(LEVELS, (4, 1))[0])]


def judge(seed: int, every: bool = False) -> list[dict[str, Any]]:
    """The outcomes of a seed."""
    drawn = draw(seed)
    exact, elements = shares(list(drawn.wanted.values()))
    operators = [node.op_type for node in drawn.model.graph.node]
    rows = []
    for target, level in variants(seed, every):
        outcome, message = run(drawn, target, level, threads=1 + seed % 2)
        rows.append({"seed": seed, "target": target, "level": level, "outcome": outcome, "message": message,
                     "operators": operators, "exact": exact, "elements": elements})  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Counts by target, and findings."""
    counts = Counter((row["target"], row["level"], row["outcome"]) for row in rows)
    lines = ["| target | level | outcome | graphs |", "|---|---|---|---|"]
    lines += [f"| {target} | {level} | {outcome} | {n} |" for (target, level, outcome), n in sorted(counts.items())]
    exact, elements = sum(row["exact"] for row in rows), sum(row["elements"] for row in rows)
    graphs = len({row["seed"] for row in rows})
    lines.append(f"\n{graphs} graphs, {len(rows)} runs, {elements} elements, {exact} of them exact to the bit")
    operators = Counter(name for row in rows for name in set(row["operators"]))
    lines.append("runs by operator: " + ", ".join(f"{name} {n}" for name, n in operators.most_common()))
    return "\n".join(lines)


def main() -> None:
    """Run the seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", action="store_true", help="all targets and levels for each graph")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--out", type=Path, default=Path("build/quantized_graphs.jsonl"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done, deadline = {row["seed"] for row in rows}, time.monotonic() + 60 * args.minutes
    for seed in range(args.seed, args.seed + args.count):
        if seed in done or time.monotonic() > deadline:
            continue
        found = judge(seed, args.every)
        rows += found
        with args.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)
        for row in found:
            if row["outcome"] != RIGHT:
                print(f"seed {seed} {row['target']} level {row['level']}: {row['outcome']}: ", end="")
                print(f"{' '.join(row['operators'])}: {' '.join(row['message'].split())[:300]}", flush=True)
    print(table(rows))
    if any(row["outcome"] != RIGHT for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
