"""The command of benches that compare networks of a framework with it: a line a network, and how many agree.

A long comparison goes in portions: `--log FILE` keeps the lines, and what stands there is not run again; `--seconds`
ends a portion behind the network that is being compared then. A case in which the process itself ended, as converters
of frameworks do, is reported by the next portion, which goes on behind it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

#: The largest difference over the largest output that agrees.
BOUND = 1e-4


def options(description: str) -> argparse.ArgumentParser:
    """Options that all of them take: networks, ways to run them, files to keep."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--log", type=Path, help="lines of this run and of those before it, which are not run again")
    parser.add_argument("--trace", action="store_true", help="where errors come from")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no network is begun after so many")
    return parser


def compare_networks(
    names: Iterable[str], args: argparse.Namespace, compare: Callable[[str, Path, bool], float]
) -> None:
    """Print the result of `compare(name, folder, compiled)` for each network; one that raises is reported as such."""
    compare_cases([name for name in names if args.only in name], args, compare, lambda _: BOUND)


def compare_cases(
    cases: Sequence[str],
    args: argparse.Namespace,
    compare: Callable[[str, Path, bool], float],
    bound: Callable[[str], float],
) -> list[str]:
    """`compare_networks` of all `cases`, each with the largest difference that agrees, `bound(case)`; the lines."""
    begun, lines = time.monotonic(), _lines_of(args.log)
    for case in cases:
        if case in lines:
            continue
        if time.monotonic() - begun > args.seconds:
            print("the time is over; the same call goes on")
            break
        if args.log:
            _begun(args.log).write_text(case)
        lines[case] = _line(case, args, compare, bound(case))
        print(lines[case], flush=True)
        if args.log:
            _keep(args.log, lines[case])
            _begun(args.log).unlink()
    chosen = [lines[case] for case in cases if case in lines]
    print(f"agree: {sum(': agrees, ' in line for line in chosen)} of {len(chosen)}")
    return chosen


def _lines_of(log: Path | None) -> dict[str, str]:
    """The lines of earlier portions by case."""
    if log and _begun(log).is_file():
        _keep(log, f"{_begun(log).read_text()}: the process ended")
        _begun(log).unlink()
    written = log.read_text().splitlines() if log and log.is_file() else []
    return {line.partition(": ")[0]: line for line in written}


def _begun(log: Path) -> Path:
    """Path of the file that names the case being compared."""
    return log.with_name(f"{log.name}.begun")


def _keep(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line}\n")


def _line(case: str, args: argparse.Namespace, compare: Callable[[str, Path, bool], float], bound: float) -> str:
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.save / case.replace(" ", "_") if args.save else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            apart = compare(case, folder, args.compile)
            verdict = f"{'agrees' if apart <= bound else 'DIFFERS'}, difference {apart:.1e}"
        except Exception as error:  # the other cases are tried
            verdict = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
            if args.trace:
                traceback.print_exc(limit=-12)
    return f"{case}: {verdict} ({time.perf_counter() - begun:.1f} s)"
