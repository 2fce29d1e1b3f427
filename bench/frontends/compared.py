"""The command of benches that compare networks of a framework with it: a line a network, and how many agree."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

#: The largest difference over the largest output that agrees.
BOUND = 1e-4


def options(description: str) -> argparse.ArgumentParser:
    """What all of them take: `--only PART` of a name, `--compile` in place of the interpreter, `--save FOLDER`."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--save", type=Path)
    return parser


def compare_networks(
    names: Iterable[str], args: argparse.Namespace, compare: Callable[[str, Path, bool], float]
) -> None:
    """Print what `compare(name, folder, compiled)` finds of each network; one that raises is told, the others go on."""
    good = tried = 0
    for name in [one for one in names if args.only in one]:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.save / name if args.save else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                apart = compare(name, folder, args.compile)
                said, agrees = f"difference {apart:.1e}", apart <= BOUND
            except Exception as error:  # the other networks are tried
                said, agrees = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}", False
        good, tried = good + agrees, tried + 1
        print(f"{name}: {said} ({time.perf_counter() - begun:.1f} s)", flush=True)
    print(f"agree: {good} of {tried}")
