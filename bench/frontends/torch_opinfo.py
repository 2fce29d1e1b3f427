"""Import of PyTorch's own operator samples (OpInfo, float32), and their agreement with eager mode.

    python bench/frontends/torch_opinfo.py [--samples 3] [--part 0/4] [--from 0] [--compiled] [--file FILE]
        [--seconds 500] [PATTERN ...]

Each sample's function is exported by `torch.export` with its tensors as inputs. What torch.export does not take counts
as "not exported", and what draws random numbers as "random"; both are left out of the share. Where PyTorch's own tests
compare a function of the results, because not all of them is determined, so does this. The imported module is evaluated
by the interpreter, or compiled with `--compiled`. A sample that takes more than a minute of the processor has failed.
With `--file`, a line of JSON is added for each operator, and operators that it has are not run again; `--seconds`
begins no operator after that time, and the report is of all that the file has. Needs torch, expecttest, hypothesis and
scipy.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import tilewright
from tilewright.errors import UnsupportedError
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.interpreter.interpreter import interpret

#: Operators whose results are random or unset, so that there is nothing to compare with.
_UNDETERMINED = re.compile(r"rand|dropout|bernoulli|multinomial|normal$|^empty|new_empty|exponential|cauchy|geometric|"
                           r"log_normal|lowrank|uniform|rrelu|normal_|fractional_max_pool")  # fmt: skip

#: Seconds of the processor that a sample may take.
_LIMIT = 60


class Call(torch.nn.Module):
    """The call of a sample: tensors are inputs, everything else is fixed."""

    def __init__(self, function: Any, spec: Any, fixed: dict[int, Any], count: int) -> None:
        super().__init__()
        self.function, self.spec, self.fixed, self.count = function, spec, fixed, count

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [self.fixed[index] if index in self.fixed else next(given) for index in range(self.count)]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def samples(entry: Any, most: int) -> Iterator[Any]:
    """At most `most` of an operator's samples, spread over all of them."""
    found = list(entry.sample_inputs("cpu", torch.float32, requires_grad=False))
    step = max(len(found) / most, 1) if most else 1
    yield from (found[int(index * step)] for index in range(len(found) if not most else min(most, len(found))))


def plain(value: Any) -> Any:
    """A tensor or number as a real tensor, complex ones with their parts in the last axis."""
    tensor = torch.as_tensor(value).detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def draws(program: Any) -> bool:
    """True where a program draws random numbers, so that there is nothing to compare with."""
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            names = [argument.name for argument in node.target._schema.arguments]
            given = {**dict(zip(names, node.args)), **node.kwargs}
            if given.get("train", True) and given.get("p", given.get("dropout_p", 1)):
                return True
    return False


def judge(entry: Any, sample: Any, compiled: bool) -> tuple[str, str]:
    """The outcome of a sample, in a word, and the reason."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    fixed = {index: leaf for index, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)}
    call = Call(entry.op, spec, fixed, len(leaves))
    try:
        wanted = call(*[tensor.clone() for tensor in tensors])
        program = torch.export.export(call, tuple(tensors), strict=False)
    except Exception as error:
        return "not exported", f"{type(error).__name__}: {error}"[:200]
    if draws(program):
        return "random", ""
    expected = [plain(leaf) for leaf in pytree.tree_leaves(wanted) if isinstance(leaf, torch.Tensor | float)]
    try:
        module, specs = from_pytorch(program)
        inputs = [plain(tensor).contiguous().numpy() for tensor in tensors][: len(specs)]
        if compiled:
            model = tilewright.compile(module, cache=False)
            results = model.run({spec.name: value for spec, value in zip(specs, inputs)})
        else:
            results = interpret(module, inputs)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"[:400]
    more = module["main"].attrs["output_names"][len(expected) :]
    if set(more) <= {spec.name for spec in specs}:
        results = results[: len(expected)]  # behind them come the new values of inputs
    if len(results) != len(expected):
        return "failed", f"{len(results)} results instead of {len(expected)}"
    why = unlike(results, expected)
    if why and sample.output_process_fn_grad is not None:  # of which not all is determined: signs of singular vectors
        form = pytree.tree_structure(wanted)
        ours = sample.output_process_fn_grad(pytree.tree_unflatten([torch.as_tensor(one) for one in results], form))
        right = pytree.tree_leaves(sample.output_process_fn_grad(wanted))
        why = unlike([one.numpy() for one in pytree.tree_leaves(ours)], right)
    return ("failed", why) if why else ("passed", "")


def unlike(results: list[Any], expected: list[Any]) -> str:
    """The first result that is not what is expected; empty where all are."""
    for found, right in zip(results, expected, strict=True):
        exact = right.double().numpy()
        if found.shape != exact.shape or not np.allclose(found.astype(np.float64), exact, 1e-3, 1e-4, equal_nan=True):
            return f"wrong numbers {found.dtype}{list(found.shape)} for {right.dtype}{list(right.shape)}"
    return ""


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"took more than {_LIMIT} seconds")


def judged_in_time(entry: Any, sample: Any, compiled: bool) -> tuple[str, str]:
    """The outcome of a sample, within the limit."""
    signal.setitimer(signal.ITIMER_PROF, _LIMIT)
    try:
        return judge(entry, sample, compiled)
    except TimeoutError as error:
        return "failed", str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Print the share that passes, operators with failures, and what most unsupported samples lack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of operators (regular expressions)")
    parser.add_argument("--samples", type=int, default=3, help="samples an operator; 0 for all")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th operator from the K-th on")
    parser.add_argument("--from", dest="begin", type=int, default=0, help="leave out so many operators before")
    parser.add_argument("--compiled", action="store_true", help="compile instead of interpreting")
    parser.add_argument("--file", type=Path, help="add outcomes to this file; operators that it has are not run again")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no operator after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGPROF, _too_long)
    first, step = map(int, options.part.split("/"))
    chosen = [entry for entry in op_db if torch.float32 in entry.dtypes and not _UNDETERMINED.search(entry.name)]
    chosen = [
        entry for entry in chosen if not options.patterns or any(re.fullmatch(p, entry.name) for p in options.patterns)
    ]
    began = time.monotonic()
    outcomes: list[tuple[str, str, str]] = []
    if options.file is not None and options.file.exists():
        outcomes = [tuple(one) for line in options.file.read_text().splitlines() for one in json.loads(line)]
    done = {name for name, _, _ in outcomes}
    for entry in chosen[options.begin :][first::step]:
        name = f"{entry.name} {entry.variant_test_name}".strip()
        if name in done or time.monotonic() - began > options.seconds:
            continue
        torch.manual_seed(0)
        found = [(name, *judged_in_time(entry, sample, options.compiled)) for sample in samples(entry, options.samples)]
        outcomes += found
        if options.file is not None:
            with options.file.open("a") as file:
                file.write(json.dumps(found) + "\n")
    report(outcomes)


def report(outcomes: list[tuple[str, str, str]]) -> None:
    """Print what became of the samples."""
    totals = Counter(outcome for _, outcome, _ in outcomes)
    taken = len(outcomes) - totals["not exported"] - totals["random"]
    by_name: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, str] = {}
    lacking: Counter[str] = Counter()
    for name, outcome, why in outcomes:
        by_name[name][outcome] += 1
        if outcome == "failed":
            reasons.setdefault(name, why)
        if outcome == "unsupported":
            lacking.update([why.strip().splitlines()[-1].strip()])
    print(f"{len(outcomes)} samples of {len(by_name)} operators: {dict(totals)}")
    print(f"{totals['passed']} of the {taken} that torch.export takes agree: {totals['passed'] / max(taken, 1):.1%}")
    for name, why in reasons.items():
        print(f"failed: {name} {dict(by_name[name])}: {why}")
    for what, count in lacking.most_common():
        print(f"unsupported: {count} samples: {what}")


if __name__ == "__main__":
    sys.exit(main())
