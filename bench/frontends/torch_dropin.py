"""`torch.compile(backend="tilewright")` as a drop-in: programs of users beside eager mode and `aot_eager`.

    python bench/frontends/torch_dropin.py [--seed 0] [--random 40] [--seconds 500] [NAME ...]

A program is a function of a function `compiled`, which it applies to what is to be compiled, and returns whatever its
user would look at. It runs eagerly, with the backend "aot_eager" and with this package's, each time from one seed;
compared are exceptions, structures, element types, shapes, strides, offsets, which results share memory with which
and with the inputs, and values. A difference that `aot_eager` has as well is PyTorch's own. `--random` programs are
made of operators on views and layouts drawn by the seed. Each line names a program that differs or falls back; the
last line counts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch_dropin_kinds  # noqa: F401
import torch_dropin_training  # noqa: F401
from torch_dropin_state import PROGRAMS as STATE
from torch_dropin_views import PROGRAMS as VIEWS
from torch_dropin_views import random_program
from torch_dropin_way import Way, seen_of

from tilewright.torch_backend import FallbackWarning, torch_report

#: The largest difference of values, over the largest element, for float32 and wider, and for floats of 16 bits.
_WIDE, _SHORT = 2e-4, 3e-2

#: How a program may end.
_VERDICTS = (
    "agrees", "as aot_eager", "stride of an axis of 1", "result where eager mode raises", "DIFFERS", "RAISES",
)  # fmt: skip

_BACKENDS = {"eager": None, "aot_eager": "aot_eager", "ours": "tilewright"}


def _run(program: Callable[[Way], Any], backend: str | None) -> tuple[Any, list[str], str]:
    """The visible results of a run, its fallbacks, and the report of coverage."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch_report(reset=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        way = Way(backend)
        try:
            found = seen_of(program(way), way)
        except Exception as error:  # to be compared
            found = ("raises", type(error).__name__, " ".join(str(error).split())[:300])
    left = [" ".join(str(one.message).split())[:200] for one in caught if issubclass(one.category, FallbackWarning)]
    return found, left, str(torch_report()).partition("\n")[0]


def _apart(found: Any, wanted: Any) -> str:
    """The first difference of two things seen; empty where there is none."""
    if found[0] == "raises" or wanted[0] == "raises":
        same = found[0] == wanted[0] and found[1] == wanted[1]
        one, other = (seen[:3] if seen[0] == "raises" else "a result" for seen in (found, wanted))
        return "" if same else f"{one} instead of {other}"
    for what, one, other in zip(("structure", "tensors", "memory"), found, wanted):
        if one != other:
            return f"{what}: {_first(one, other)}"
    for index, (one, other) in enumerate(zip(found[3], wanted[3])):
        if (difference := _difference(one, other)) > (_SHORT if one.dtype.itemsize <= 2 else _WIDE):
            return f"values: {difference:.1e} apart in tensor {index}"
    return ""


def _first(one: Any, other: Any) -> str:
    if isinstance(one, tuple | list) and isinstance(other, tuple | list) and len(one) == len(other):
        for index, (a, b) in enumerate(zip(one, other)):
            if a != b:
                return f"[{index}] {a} instead of {b}"
    return f"{str(one)[:200]} instead of {str(other)[:200]}"


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Over the largest element."""
    if not one.numel():
        return 0.0
    kind = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(kind), other.to(kind)
    same = (one == other) | (one.isnan() & other.isnan())
    apart = torch.where(same, 0.0, (one - other).abs()).nan_to_num(float("inf")).max()
    finite = other.abs()[other.isfinite()]
    return float(apart / max(float(finite.max()) if finite.numel() else 1.0, 1e-6))


def main() -> None:
    """Run the programs and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--random", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--part", choices=("views", "state", "both"), default="both")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    programs = {**(VIEWS if options.part != "state" else {}), **(STATE if options.part != "views" else {})}
    for number in range(options.random):
        programs[f"random {options.seed + number}"] = random_program(options.seed + number)
    counts = dict.fromkeys(_VERDICTS, 0)
    began, fallen = time.monotonic(), 0
    for name, program in programs.items():
        if (options.names and name not in options.names) or time.monotonic() - began > options.seconds:
            continue
        seen = {way: _run(program, backend) for way, backend in _BACKENDS.items()}
        verdict, difference = _verdict(seen["ours"][0], seen["aot_eager"][0], seen["eager"][0])
        left, coverage = seen["ours"][1:]
        counts[verdict] += 1
        fallen += bool(left)
        if options.verbose or left or verdict not in ("agrees", "as aot_eager"):
            outcome = f"{verdict}: {difference}" if difference else verdict
            print(f"{name}: {outcome}; {coverage}" + (f"; {left}" if left else ""), flush=True)
    print(f"{sum(counts.values())} programs, random ones from seed {options.seed}: {counts}; {fallen} fell back")


def _verdict(ours: Any, theirs: Any, eager: Any) -> tuple[str, str]:
    """One of `_VERDICTS`, and the difference to eager mode."""
    difference = _apart(ours, eager)
    if not difference:
        return "agrees", ""
    if not _apart(ours, theirs):
        return "as aot_eager", difference
    if ours[0] == "raises":
        return "RAISES", difference
    if eager[0] == "raises":
        return "result where eager mode raises", difference
    return ("stride of an axis of 1" if not _apart(_long(ours), _long(eager)) else "DIFFERS"), difference


def _long(seen: Any) -> Any:
    """As seen without the strides of axes of extent 1, which address nothing: PyTorch's fake tensors and kernels do not
    always agree on them."""
    described = [
        (kind, size, tuple(step for extent, step in zip(size, stride) if extent != 1), *more)
        for kind, size, stride, *more in seen[1]
    ]
    return seen[0], described, *seen[2:]


if __name__ == "__main__":
    main()
