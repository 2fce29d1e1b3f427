"""Executors of the work of a `LocalRunner`, for programs that bring one of their own.

class Mine(Executor):
    def submit(self, func, *args, **kwargs): ...       # a future of func(*args, **kwargs)

runner = LocalRunner()
runner.executor = Mine()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class FutureError(RuntimeError):
    """The exception that a future raises in place of a result."""


class TimeoutError(FutureError):
    """The result was not there in time."""


class ExecutionError(FutureError):
    """The function could not be run."""


class Future(ABC):
    """A result to come. Those of `concurrent.futures` do as well."""

    @abstractmethod
    def done(self) -> bool:
        """True if the result is there."""

    @abstractmethod
    def get(self, timeout: float | None = None) -> Any:
        """The result, waited for `timeout` seconds at most. Raises `TimeoutError`."""


class Executor(ABC):
    """Runs functions, somewhere."""

    @abstractmethod
    def submit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A future of `func(*args, **kwargs)`."""


def result_of_future(future: Any, seconds: float) -> Any:
    """The result of a future of either kind. Raises what it raises."""
    return future.get(seconds) if isinstance(future, Future) else future.result(seconds)
