"""Dispatch of configurations to templates: contexts, the innermost of which is asked first.

    with apply_history_best("matmul.log"):           # the best of a log, by workload
        s, args = matmul(512, 512, 512, "float32")

A context that has no answer asks the one around it; without any, a template gets the first value of each knob.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tilewright.autotvm.template.space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from tilewright.errors import InputError

_STACK: ContextVar[tuple[Any, ...]] = ContextVar("tilewright_dispatch", default=())

Workload = tuple[Any, ...]


class DispatchContext:
    """Answers the question for a configuration; a subclass overrides `_query_inside`."""

    current: Any = None

    def __init__(self) -> None:
        self._outer: tuple[Any, ...] = ()

    def query(self, target: Any, workload: Workload | None) -> Any:
        """The configuration of a workload, of this context or of those around it."""
        for context in (self, *reversed(self._outer)):
            found = context._query_inside(target, workload)
            if found is not None:
                return found
        return FallbackConfigEntity()

    def update(self, target: Any, workload: Workload, cfg: Any) -> None:
        """Have `cfg` as the answer for a workload from now on."""
        raise InputError(f"{type(self).__name__} takes no configurations of a program's own")

    def _query_inside(self, target: Any, workload: Workload | None) -> Any:
        """The answer of this context alone, None where it has none."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._outer = _STACK.get()
        _STACK.set((*self._outer, self))
        return self

    def __exit__(self, *_: object) -> None:
        _STACK.set(self._outer)
        self._outer = ()


def current_context() -> DispatchContext:
    """The innermost context."""
    stack = _STACK.get()
    context: DispatchContext = stack[-1] if stack else FallbackContext()
    return context


class ApplyConfig(DispatchContext):
    """The same configuration, or the space to declare, whatever is asked."""

    def __init__(self, config: ConfigSpace | ConfigEntity) -> None:
        super().__init__()
        self.config = config

    def _query_inside(self, target: Any, workload: Workload | None) -> Any:
        return self.config


class FallbackContext(DispatchContext):
    """Configurations by (target, workload), of a program's own; where there are none, the first value of each knob."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[Any, Any] = {}
        self.silent = False

    def update(self, target: Any, workload: Workload, cfg: Any) -> None:
        self.memory[str(target), workload] = cfg

    def clear_cache(self, target: Any, workload: Workload) -> None:
        """Forget the configuration of a workload."""
        self.memory.pop((str(target), workload), None)

    def query(self, target: Any, workload: Workload | None) -> Any:
        return self._query_inside(target, workload)

    def _query_inside(self, target: Any, workload: Workload | None) -> Any:
        return self.memory.setdefault((str(target), workload), FallbackConfigEntity())


class ApplyBest(DispatchContext):
    """The answers of `find(target, workload)`, and those that a program has set."""

    def __init__(self, find: Callable[[Any, Workload], Any]) -> None:
        super().__init__()
        self._find = find
        self.memory: dict[Any, Any] = {}

    def update(self, target: Any, workload: Workload, cfg: Any) -> None:
        self.memory[str(target), workload] = cfg

    def _query_inside(self, target: Any, workload: Workload | None) -> Any:
        if workload is None:
            return None
        return self.memory.get((str(target), workload)) or self._find(target, workload)


def get_config() -> Any:
    """In a template: the configuration that it is to follow, or the space that it is to declare."""
    return current_context().query(None, None)
