"""Write the loop IR of every kernel and the run loop of each benchmark network, and compare with another tree's.

    python bench/replay_loops.py FOLDER [--only resnet18,mlp] [--set zoo] [--against OTHER] [--target TARGET]

One text file a network: the manifest's calls, then each function, in order and without anything that varies from run to
run, so that two folders of the same compiler are equal. With `--against`, the kernels that differ are named, and the
exit status is 1. Nothing runs and no machine code is made; a given target makes the texts the same everywhere.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from networks import ROOT, SETS, model_file

from tilewright.backend.cpu.backend import CpuBackend
from tilewright.driver.build import compile_segments, plan_segments
from tilewright.driver.optimize import optimize
from tilewright.frontend.formats.import_model import import_model
from tilewright.runtime.link import split_objects
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

#: A processor of which every figure is in the table, whatever this machine is.
TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -l1d=32768 -l2=1048576 -l3=33554432 -cores=2"


class TextBackend(CpuBackend):
    """Processors whose code is the printed loop IR."""

    def code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """The text of the functions."""
        return "\n".join(str(func) for func in funcs).encode(), 0.0


def replay(path: Path, shapes: dict[str, tuple[int, ...]], target: Target) -> str:
    """All functions of a network, and the manifest of its run."""
    mod = optimize(import_model(str(path), shapes), target)
    backend = TextBackend(target)
    built = compile_segments(plan_segments([("main", mod)], backend), backend)
    manifest = json.dumps(built.plans[0].to_json(), indent=0, sort_keys=True)
    functions = "\n".join(text.decode() for text in split_objects(built.code))
    return f"def manifest:\n{manifest}\n{functions}\n"


def functions_of(text: str) -> dict[str, str]:
    """The functions of a network's file by name."""
    parts = re.split(r"^def (\w+)", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def differences(ours: Path, theirs: Path) -> list[str]:
    """A line for each network that one folder lacks and for each function that differs."""
    if not theirs.exists():
        return [f"{ours.stem}: absent from {theirs.parent}"]
    made, wanted = functions_of(ours.read_text()), functions_of(theirs.read_text())
    lines = [f"{ours.stem}: {name} differs" for name in made if name in wanted and made[name] != wanted[name]]
    lines += [f"{ours.stem}: {name} is new" for name in made if name not in wanted]
    return lines + [f"{ours.stem}: {name} is gone" for name in wanted if name not in made]


def main() -> int:
    """Write the folder, and compare it where another is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="names, separated by commas, instead of a whole set")
    parser.add_argument("--set", choices=SETS, default="benchmark")
    parser.add_argument("--against", type=Path, help="a folder written before")
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "networks", help="where networks are filled")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    names = args.only.split(",") if args.only else SETS[args.set]
    found: list[str] = []
    for name in names:
        start = time.perf_counter()
        path, shapes = model_file(name, args.models)
        written = args.folder / f"{name}.txt"
        written.write_text(replay(path, shapes, Target(args.target)))
        print(f"{name}: {written.stat().st_size >> 10} kB, {time.perf_counter() - start:.1f} s", flush=True)
        found += differences(written, args.against / written.name) if args.against else []
    if args.against:
        print("\n".join(found) or f"no difference from {args.against} in {len(names)} networks")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
