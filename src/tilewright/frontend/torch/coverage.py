"""Coverage of programs by `torch.compile`: graphs, breaks, operators left to PyTorch and why.

    print(tilewright.torch_report())

Every graph that the back end is given has a record; what breaks graphs PyTorch counts itself, for the whole process.
The logger "tilewright" records each of it as it happens.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.support.log import INFO, log


@dataclass
class GraphRecord:
    """One graph: what it is for (inference, forward, backward), its calls of operators, and what became of it.

    `state` is "waiting" until it is run for the first time, then "compiled" or "left" (to PyTorch, for `reason`).
    `left_calls` are calls of a compiled graph that PyTorch had to make.
    """

    kind: str
    operators: int
    state: str = "waiting"
    reason: str = ""
    left_calls: int = 0

    def became(self, state: str, reason: str = "") -> None:
        """Note what became of the graph."""
        self.state, self.reason = state, reason
        because = f": {reason}" if reason else ""
        log(INFO, "torch.compile: a graph for %s of %d operators is %s%s", self.kind, self.operators, state, because)


@dataclass(frozen=True)
class TorchReport:
    """The compilation of graphs since the process began, or since the report was last reset.

    `breaks` are Dynamo's reasons for breaking graphs, with how often each occurred; `empty` counts the pieces of
    programs that Dynamo read and made no graph of. Both count other back ends in the process as well.
    """

    graphs: tuple[GraphRecord, ...]
    breaks: dict[str, int] = field(default_factory=dict)
    empty: int = 0

    @property
    def compiled(self) -> int:
        """Graphs that were compiled."""
        return sum(graph.state == "compiled" for graph in self.graphs)

    @property
    def left(self) -> tuple[GraphRecord, ...]:
        """Graphs that run in PyTorch, and those of which PyTorch had to make a call."""
        return tuple(graph for graph in self.graphs if graph.state == "left" or graph.left_calls)

    @property
    def left_operators(self) -> int:
        """Calls of operators in the graphs that run in PyTorch."""
        return sum(graph.operators for graph in self.graphs if graph.state == "left")

    @property
    def nothing_compiled(self) -> bool:
        """True where no graph was compiled."""
        return not self.compiled

    def __str__(self) -> str:
        waiting = sum(graph.state == "waiting" for graph in self.graphs)
        operators = sum(graph.operators for graph in self.graphs)
        lines = [
            f"{len(self.graphs)} graphs of {operators} operators: {self.compiled} compiled, "
            f"{sum(graph.state == 'left' for graph in self.graphs)} left to PyTorch ({self.left_operators} operators)"
            + (f", {waiting} not run yet" if waiting else "")
        ]
        if self.nothing_compiled and not waiting:
            lines.insert(0, "Nothing of this program was compiled.")
        for graph in self.left:
            calls = f" in {graph.left_calls} calls" if graph.state != "left" else ""
            lines.append(f"  in PyTorch{calls}, {graph.kind} of {graph.operators} operators: {graph.reason}")
        if self.empty:
            lines.append(f"{self.empty} pieces of the program had no graph at all")
        lines += [f"  broken {count} times by PyTorch: {reason}" for reason, count in self.breaks.items()]
        return "\n".join(lines)


class _Seen:
    """The records of this process, and PyTorch's counts at the last reset."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graphs: list[GraphRecord] = []
        self.breaks: Counter[str] = Counter()
        self.empty = 0
        self.captured = 0  # PyTorch's count of graphs when it last began to read a piece of a program


_SEEN = _Seen()


class _Ran(threading.local):
    """The number of calls of graphs that the thread has made."""

    calls = 0


_RAN = _Ran()


def ran() -> None:
    """Note that a graph is called, which a `StrictCall` around it wants to know."""
    _RAN.calls += 1


def entered(kind: str, graph: Any) -> GraphRecord:
    """The record of a graph, a `torch.fx.GraphModule`, from now on in the report."""
    calls = sum(
        node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem" for node in graph.graph.nodes
    )
    record = GraphRecord(kind, calls)
    with _SEEN.lock:
        _SEEN.graphs.append(record)
    return record


def torch_report(reset: bool = False) -> TorchReport:
    """The report of `torch.compile(backend="tilewright")` in this process so far; `reset` begins anew after it."""
    counted = _breaks()
    with _SEEN.lock:
        breaks = {" ".join(reason.split()): count for reason, count in (counted - _SEEN.breaks).items()}
        report = TorchReport(tuple(_SEEN.graphs), breaks, _SEEN.empty)
        if reset:
            _SEEN.graphs, _SEEN.breaks, _SEEN.empty = [], counted, 0
    return report


class StrictCall:
    """A call of a function that is compiled with strict=True; refused where it calls no graph at all.

    PyTorch makes one for each call, from what `watch` returns. It reads each program once and remembers which it made
    nothing of, for other functions of the same code too: so calls are counted, and `reasons` are those of earlier ones.
    """

    def __init__(self, reasons: list[str]) -> None:
        self._reasons = reasons

    def __enter__(self) -> None:
        _listen()
        self._calls, self._broken = _RAN.calls, _breaks()
        self._handled = sys.exc_info()[1]  # PyTorch hands none on: one that is raised within is another than this

    def __exit__(self, *_error: Any) -> None:
        if _RAN.calls > self._calls or sys.exc_info()[1] is not self._handled:
            return
        self._reasons[:] = [" ".join(reason.split()) for reason in _breaks() - self._broken] or self._reasons
        because = "; ".join(self._reasons) or "PyTorch makes no graph of it, now or when it first read it"
        raise UnsupportedError(f"nothing of this program was compiled, and strict=True: {because}")


def watch(backend: Any = None) -> None:
    """Have PyTorch report when it has read a piece of a program: once is enough, until `torch._dynamo.reset`.

    Called for each function that is given to `torch.compile`. Its `backend`, PyTorch's record of back end and options,
    is the local variable of that name where PyTorch calls this itself; with strict=True every call is a `StrictCall`.
    """
    backend = backend or sys._getframe(1).f_locals.get("backend")
    if (getattr(backend, "kwargs", {}).get("options") or {}).get("strict"):
        backend.backend_ctx_ctor = functools.partial(StrictCall, [])
    _listen()


def announce(function: Any) -> None:
    """Have PyTorch call `watch` for each program that is given to `torch.compile` with the back end `function`.

    PyTorch 2.15 reads the attribute `_dynamo_backend_init`. Earlier versions call nothing of a back end before they
    have a graph for it; there the function that looks up the back end of a program is wrapped to do the same.
    """
    function._dynamo_backend_init = watch
    try:
        from torch._dynamo import eval_frame
    except ImportError:  # the back end raises an error that says so
        return
    if hasattr(eval_frame, "_maybe_fire_backend_init"):
        return
    found = eval_frame.get_compiler_fn

    @functools.wraps(found)
    def get_compiler_fn(backend: Any) -> Any:
        if getattr(backend, "compiler_fn", backend) is function:
            watch(backend)
        return found(backend)

    eval_frame.get_compiler_fn = get_compiler_fn


def _listen() -> None:
    """Subscribe to PyTorch's reads of pieces of a program: until `torch._dynamo.reset`, which forgets subscribers."""
    # torch is optional
    from torch._dynamo.callback import callback_handler

    if _begun not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begun)
        callback_handler.register_end_callback(_ended)


def _begun(_event: Any) -> None:
    _SEEN.captured = _captured()


def _ended(_event: Any) -> None:
    if _captured() == _SEEN.captured:
        with _SEEN.lock:
            _SEEN.empty += 1
        log(INFO, "torch.compile: PyTorch made no graph of a piece of the program: nothing of it was compiled")


def _captured() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _breaks() -> Counter[str]:
    """PyTorch's counts of what broke graphs, or kept it from making any."""
    if "torch._dynamo.utils" not in sys.modules:
        return Counter()
    from torch._dynamo.utils import counters

    return Counter(counters["graph_break"]) + Counter(counters["unimplemented"])
