"""Ways to run a program of `torch_uses.py`, eagerly in float32 or float64 or by this package, and the report."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo
from torch_compared import BOUND, TIMES, fallen, relative, tensors

import tilewright
from tilewright.torch_backend import tilewright as backend

Program = Callable[["Way"], Any]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Enter a function of a `Way` under its name."""
    PROGRAMS[function.__name__] = function
    return function


class Way:
    """A way to run a program: eagerly, in float32 or float64, or compiled by this package."""

    def __init__(self, ours: bool = False, wide: bool = False, threads: int | None = None) -> None:
        self.ours, self._wide, self._threads = ours, wide, threads

    def compiled(self, function: Any, **options: Any) -> Any:
        """`function` or module, by `torch.compile`."""
        if not self.ours:
            return function
        return torch.compile(function, backend=backend, options={"threads": self._threads}, **options)

    def exported(self, module: torch.nn.Module, args: Sequence[Any], sizes: Any = None) -> Callable[..., Any]:
        """`module`, by `torch.export` with examples and `dynamic_shapes`; buffers that change are kept."""
        if not self.ours:
            return module
        return Exported(module, args, sizes, self._threads)

    def wide(self, value: Any) -> Any:
        """A module or tensors in the precision of this run."""
        if not self._wide:
            return value
        if isinstance(value, torch.nn.Module):
            return value.double()
        return torch.utils._pytree.tree_map(_wide, value)

    def draw(self, *shape: int) -> torch.Tensor:
        """Normal random numbers, the same in each run."""
        return self.wide(torch.randn(*shape))


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


class Exported:
    """An exported program that this package compiled, with the state that PyTorch would keep in its module."""

    def __init__(self, module: torch.nn.Module, args: Sequence[Any], sizes: Any, threads: int | None) -> None:
        with torch.no_grad():
            exported = torch.export.export(module, tuple(args), dynamic_shapes=sizes, strict=False)
        signature = exported.graph_signature
        specs = [spec for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._names = [getattr(spec.arg, "name", "") for spec in specs]
        self._model = tilewright.compile(exported, threads=threads, cache=False)
        known = {**exported.state_dict, **exported.constants}
        self._state = {spec.name: known[spec.name].numpy().copy() for spec in self._model.inputs if spec.name in known}
        self._count = sum(
            spec.kind.name == "USER_OUTPUT" and type(spec.arg).__name__ == "TensorArgument"
            for spec in signature.output_specs
        )

    def __call__(self, *args: Any) -> list[torch.Tensor]:
        given = dict(zip(self._names, torch.utils._pytree.tree_leaves(args)))
        wanted = [spec.name for spec in self._model.inputs]
        feed = {name: self._state[name] if name in self._state else given[name].numpy() for name in wanted}
        results = self._model.run(feed)
        changes = [spec.name for spec in self._model.outputs[self._count :]]
        for name, value in zip(changes, results[self._count :], strict=True):
            if name in self._state:
                self._state[name] = value
            else:
                given[name].copy_(torch.from_numpy(value))
        return [torch.from_numpy(one) for one in results[: self._count]]


def _run(function: Program, way: Way) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [one.detach().clone() for one in tensors(function(way))]


def measure(function: Program, _ways: Sequence[str], threads: int | None) -> str:
    """Report on a program."""
    eager = _run(function, Way())
    try:
        exact = _run(function, Way(wide=True))
    except (RuntimeError, ValueError, TypeError):  # written for float32
        exact = None
    finite = [one.abs()[one.isfinite()] for one in eager]
    largest = max((float(one.max()) for one in finite if one.numel()), default=1.0)
    own = relative(eager, exact, 1e-3 * largest) if exact is not None else float("nan")
    yardstick = exact if exact is not None and own < 1e-2 else eager
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _run(function, Way(ours=True, threads=threads))
    counters = torch._dynamo.utils.counters
    apart = relative(found, yardstick, 1e-3 * largest)
    agrees = apart <= BOUND or apart <= TIMES * own
    breaks = "; ".join(" ".join(str(reason).split())[:160] for reason in counters["graph_break"])
    parts = [
        f"eager {own:.1e} from float64, ours {apart:.1e} of {len(found)} tensors",
        f"{counters['stats']['unique_graphs']} graphs{fallen(caught)}",
        *([f"breaks: {breaks}"] if breaks else []),
        f"{'agrees' if agrees else 'DIFFERS'} in {time.perf_counter() - began:.0f} s",
    ]
    return "; ".join(parts)
