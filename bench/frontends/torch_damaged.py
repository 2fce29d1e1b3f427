"""Damaged archives of PyTorch: what becomes of each, in processes that may die.

    python bench/frontends/torch_damaged.py [--count 600] [--seconds 480] [pt2] [script]

Of each format the bytes of an archive are damaged (cut off, changed, taken out, repeated), and then its entries, in
archives whose checksums are right. Every one must be read or refused by one `UserError`; anything else, a process that
dies, more than 60 seconds or more than 2 GB beside what a process has at first is printed and counted.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.frontend.running import mutations

_MOST_SECONDS, _MOST_MEMORY = 60, 2 << 30


def archive(kind: str) -> bytes:
    """An archive of a small network with a size that stays open."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)
            self.lstm, self.head = torch.nn.LSTM(16, 5, batch_first=True), torch.nn.Linear(5, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.norm(self.conv(x))).flatten(2)
            return torch.cat([self.head(self.lstm(y)[0]), y[:, :, :2]], 2) * x.shape[0]

    buffer, example = io.BytesIO(), torch.ones(4, 2, 6, 6)
    if kind == "script":
        torch.jit.save(torch.jit.script(Net().eval()), buffer)
    else:
        sizes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
        torch.export.save(torch.export.export(Net().eval(), (example,), dynamic_shapes=sizes), buffer)
    return buffer.getvalue()


def damaged(whole: bytes, count: int) -> Iterator[bytes]:
    """Half of them by their bytes, half by those of an entry."""
    yield from mutations(whole, count // 2)
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    chosen = [name for name in parts if len(parts[name]) > 8]
    each = [mutations(parts[name], count, seed=position) for position, name in enumerate(chosen)]
    for number in range(count - count // 2):
        position = number % len(chosen)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, contents in {**parts, chosen[position]: next(each[position])}.items():
                file.writestr(name, contents)
        yield buffer.getvalue()


def work(kind: str, jobs: Connection) -> None:
    """Read archives that come, and say what became of each."""
    import logging

    import torch

    from tilewright.errors import UserError
    from tilewright.frontend.torch import from_pytorch
    from tilewright.frontend.torch.script.convert import bound, convert_script, load_script

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    path = Path(tempfile.mkdtemp()) / f"model.{kind}"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    while True:
        path.write_bytes(jobs.recv_bytes())
        try:
            if kind == "pt2":
                from_pytorch(path)
            else:
                module = load_script(path)
                convert_script(module, bound(module, (torch.ones(4, 2, 6, 6),)))
            outcome = "read"
        except UserError as error:
            outcome = "refused" if str(error).strip() else "an error without a message"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {str(error)[:300]}"
        used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - memory
        jobs.send(outcome if used <= _MOST_MEMORY else f"{used >> 20} MiB for: {outcome}")


def started(kind: str) -> tuple[Any, Connection]:
    """A process that reads archives, and the pipe to it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=work, args=(kind, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def run(kind: str, count: int, until: float) -> None:
    """Print what became of the archives of one format."""
    process, jobs = started(kind)
    outcomes: Counter[str] = Counter()
    for number, contents in enumerate(damaged(archive(kind), count)):
        if time.monotonic() > until:
            break
        try:
            jobs.send_bytes(contents)
            outcome = jobs.recv() if jobs.poll(_MOST_SECONDS) else f"more than {_MOST_SECONDS} seconds"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            process.join()
            outcome = f"the process died ({process.exitcode})"
        if outcome not in ("read", "refused"):
            print(f"{kind} {number}: {outcome}", flush=True)
        if "the process died" in outcome or "seconds" in outcome or "MiB" in outcome:
            process.kill()
            process, jobs = started(kind)
        outcomes[outcome if outcome in ("read", "refused") else "wrong"] += 1
    process.kill()
    print(f"{kind}: {sum(outcomes.values())} damaged archives: {dict(outcomes)}", flush=True)


def main() -> None:
    """Run each format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=["pt2", "script"])
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    for kind in options.kinds:
        run(kind, options.count, until)


if __name__ == "__main__":
    main()
