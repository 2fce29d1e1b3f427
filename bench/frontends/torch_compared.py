"""The command of benches that compare networks of PyTorch with eager mode: a line a network, in portions.

Each network runs eagerly in float32 and in float64, exported by `torch.export` and compiled, and by
`torch.compile(backend="tilewright")`. Differences are taken from the run in float64, so that those of eager mode itself
are the yardstick: a way agrees where its largest difference over the largest element of each output is at most
`BOUND`, or `TIMES` that of eager mode in float32. Where float64 takes another way through the network (other boxes),
they are taken from eager mode in float32 too. Every network has a process of its own, which may die. `--ways train`
compares a step of training instead, `--ways batches` several sizes of batch by one graph.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

import tilewright
from tilewright.torch_backend import FallbackWarning
from tilewright.torch_backend import tilewright as backend

#: The largest difference over the largest element that agrees in any case, and how many times eager mode's agree.
BOUND, TIMES = 1e-5, 4.0

#: Sizes of batch for one graph with symbolic dimensions.
_BATCHES = (3, 2, 5)


@dataclass
class Case:
    """A network and what it is called with. `in_order` puts results without an order of their own in that of others."""

    module: torch.nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # ways that are not gone, and why
    in_order: Callable[[list[torch.Tensor], list[torch.Tensor]], list[torch.Tensor]] = lambda found, _wanted: found


def tensors(output: Any) -> list[torch.Tensor]:
    """The tensors of an output, in order; of an output of `transformers` those of its tuple."""
    plain = output.to_tuple() if hasattr(output, "to_tuple") else output
    return [leaf for leaf in torch.utils._pytree.tree_leaves(plain) if isinstance(leaf, torch.Tensor)]


def relative(found: list[torch.Tensor], wanted: list[torch.Tensor], least: float = 1e-30) -> float:
    """The largest difference over the largest element of each tensor, or `least`; infinite for other shapes."""
    if [one.shape for one in found] != [one.shape for one in wanted]:
        return float("inf")
    worst = 0.0
    for one, other in zip(found, wanted):
        if not one.numel():
            continue
        kind = torch.complex128 if other.is_complex() else torch.float64
        one, other = one.to(kind), other.to(kind)
        same = (one == other) | (one.isnan() & other.isnan())  # infinite in both
        difference = torch.where(same, 0.0, (one - other).abs())
        finite = other.abs()[other.isfinite()]
        scale = finite.max() if finite.numel() else torch.tensor(1.0)
        worst = max(worst, float(difference.nan_to_num(float("inf")).max() / scale.clamp(min=least)))
    return worst


def in_float64(case: Case) -> list[torch.Tensor] | None:
    """The network's results in double precision; None where it cannot run so."""
    module = copy.deepcopy(case.module).double()
    args, kwargs = torch.utils._pytree.tree_map(_wide, (case.args, case.kwargs))
    try:
        return tensors(module(*args, **kwargs))
    except (RuntimeError, ValueError, TypeError):  # written for float32
        return None


def by_export(case: Case, threads: int | None) -> tuple[list[torch.Tensor], str]:
    """The outputs of the compiled program of `torch.export`; those added for buffers that change are left out."""
    program = torch.export.export(case.module, case.args, case.kwargs, strict=False)
    model = tilewright.compile(program, threads=threads, cache=False)
    signature = program.graph_signature
    named = [spec.arg.name for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
    leaves = torch.utils._pytree.tree_leaves((case.args, case.kwargs))
    feed = {name: leaf.numpy() for name, leaf in zip(named, leaves, strict=True) if isinstance(leaf, torch.Tensor)}
    state = {**dict(case.module.named_buffers()), **dict(case.module.named_parameters())}
    for spec in model.inputs:
        if spec.name not in feed and spec.name in state:
            feed[spec.name] = state[spec.name].numpy()
    found = [torch.from_numpy(one) for one in model.run(feed)]
    wanted = [spec for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT" and hasattr(spec.arg, "name")]
    return found[: sum(type(spec.arg).__name__ == "TensorArgument" for spec in wanted)], ""


def by_compile(case: Case, threads: int | None) -> tuple[list[torch.Tensor], str]:
    """The outputs by `torch.compile`, with what ran in PyTorch and how often Dynamo broke the graph."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = {"threads": threads} if threads else {}
        found = tensors(torch.compile(case.module, backend=backend, options=options)(*case.args, **case.kwargs))
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return found, (f"{breaks} breaks of Dynamo's own" if breaks else "") + fallen(caught)


def measure_batches(case: Case, threads: int | None) -> str:
    """Difference of batches of several sizes from eager mode's, by one `torch.compile` with symbolic dimensions."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(case.module, backend=backend, dynamic=True, options={"threads": threads})
    apart = []
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in _BATCHES:
            args, kwargs = torch.utils._pytree.tree_map(
                lambda one, batch=batch: _repeated(one, batch), (case.args, case.kwargs)
            )
            wanted = tensors(case.module(*args, **kwargs))
            apart.append(relative(tensors(compiled(*args, **kwargs)), wanted))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    listed = ", ".join(f"{one:.1e}" for one in apart)
    return f"batches of {', '.join(map(str, _BATCHES))} differ by {listed} in {graphs} graphs{fallen(caught)}"


def _repeated(value: Any, batch: int) -> Any:
    """The requested number of rows, the first ones again and again."""
    return value[torch.arange(batch) % len(value)] if isinstance(value, torch.Tensor) else value


def fallen(caught: list[warnings.WarningMessage]) -> str:
    """The parts that ran in PyTorch, with the reasons."""
    back = [" ".join(str(one.message).split())[:300] for one in caught if issubclass(one.category, FallbackWarning)]
    return "".join(f"; in PyTorch: {one}" for one in dict.fromkeys(back))


def trained(module: torch.nn.Module, case: Case, run: Callable[..., Any]) -> list[torch.Tensor]:
    """Gradients, then parameters and buffers, after one step of `module`, whose calls `run` makes; drops nothing."""
    module.train()
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
        if type(part).__name__ in ("DropPath", "DropBlock2d"):
            part.drop_prob = 0.0
    with torch.enable_grad():
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        results = [one for one in tensors(run(*case.args, **case.kwargs)) if one.requires_grad]
        torch.stack([one.square().mean() for one in results]).sum().backward()
        gradients = [one.grad.clone() for one in module.parameters() if one.grad is not None]
        optimizer.step()
    scale = max(float(one.abs().max()) for one in gradients)
    return [*(one / scale for one in gradients), *(one.clone() for one in module.state_dict().values())]


def measure_training(case: Case, threads: int | None) -> str:
    """Difference of a step of training from eager mode's: gradients over the largest of all, and weights."""
    eager, ours, exact = (copy.deepcopy(case.module) for _ in range(3))
    wanted = trained(eager, case, eager)
    wide = Case(exact.double(), *torch.utils._pytree.tree_map(_wide, (case.args, case.kwargs)))
    right = trained(exact, wide, exact)
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = trained(ours, case, torch.compile(ours, backend=backend, options={"threads": threads}))
    apart = [_step_difference(one, other) for one, other in ((found, wanted), (wanted, right), (found, right))]
    from_exact = f"eager {apart[1]:.1e} and ours {apart[2]:.1e} from float64"
    return f"a step of training differs by {apart[0]:.1e}, {from_exact}{fallen(caught)}"


def _step_difference(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """The largest difference of two lists of tensors, over the largest element of each where that is above 1."""
    pairs = [(one.double(), other.double()) for one, other in zip(found, wanted, strict=True) if one.numel()]
    return max(float((one - other).abs().max() / other.abs().max().clamp(min=1)) for one, other in pairs)


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


#: What a line says of a case, by ways and the number of threads.
Measure = Callable[[Any, list[str], "int | None"], str]

WAYS = {"export": by_export, "compile": by_compile}


def measure(case: Case, ways: Iterable[str], threads: int | None) -> str:
    """Report on a network: the agreement of each way to run it."""
    alone = {"train": measure_training, "batches": measure_batches}
    if (way := next(iter(ways))) in alone:
        return alone[way](case, threads)
    with torch.no_grad():
        eager = tensors(case.module(*case.args, **case.kwargs))
        exact = in_float64(case)
        own = relative(case.in_order(eager, exact), exact) if exact is not None else float("nan")
        yardstick = exact if exact is not None and own < 1e-2 else eager
        parts = [f"eager {own:.1e} from float64"]
        for way in ways:
            began = time.perf_counter()
            if way in case.skipped:
                parts.append(f"{way} not run: {case.skipped[way]}")
                continue
            try:
                found, note = WAYS[way](case, threads)
            except Exception as error:  # torch.export raises whatever it meets
                parts.append(f"{way} FAILS {type(error).__name__}: {' '.join(str(error).split())[:400]}")
                continue
            apart = relative(case.in_order(found, yardstick), yardstick)
            agrees = apart <= BOUND or apart <= TIMES * own
            shown = f"{way} {'agrees' if agrees else 'DIFFERS'} {apart:.1e} in {time.perf_counter() - began:.0f} s"
            parts.append(f"{shown} ({note})" if note else shown)
    return "; ".join(parts)


def _child(
    name: str, build: Callable[[str], Any], report_of: Measure, options: argparse.Namespace, sender: Any
) -> None:
    torch.manual_seed(0)
    resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))
    try:
        line = report_of(build(name), options.ways.split(","), options.threads)
    except Exception as error:  # the other networks are tried
        line = f"FAILS before: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
    sender.send(line)


def _in_process(name: str, build: Callable[[str], Any], report_of: Measure, options: argparse.Namespace) -> str:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(name, build, report_of, options, sender))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        child.join()
        return f"FAILS: the process ended with {child.exitcode}"
    finally:
        child.kill()
        child.join()


def compare_all(
    names: Callable[[], Iterable[str]], build: Callable[[str], Any], description: str, report_of: Measure = measure
) -> None:
    """Print a line for each of `names` (or those of the command line): what `report_of` says of the case that `build`
    makes."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ways", default=",".join(WAYS), help='or "train", or "batches"')
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--file", type=Path, help="add lines to this file; what it has is not run again")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no network after this time")
    parser.add_argument("--limit", type=int, default=300, help="end a network after so many seconds of a processor")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    began = time.monotonic()
    known = options.file.read_text().splitlines() if options.file is not None and options.file.exists() else []
    done = {line.partition(":")[0] for line in known}
    for name in options.names or names():
        if name in done or time.monotonic() - began > options.seconds:
            continue
        line = f"{name}: {_in_process(name, build, report_of, options)}"
        print(line, flush=True)
        if options.file is not None:
            with options.file.open("a") as file:
                file.write(line + "\n")
