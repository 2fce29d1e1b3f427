"""Executables for single sizes of a model with symbolic ones: made while it runs, used from then on, a bounded number.

The general executable asks `find` at every run. What makes an executable for a size is given from outside, as the run
time knows nothing of the compiler.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from tilewright.support.forks import own_lock

#: An executable.
Made = TypeVar("Made")

Sizes = tuple[int, ...]
Shapes = Mapping[str, tuple[int, ...]]

#: A size is worth compiling for once it was run so often; twice as often each time it was dropped before.
HOT_RUNS = 16
#: Sizes whose runs are counted; the one not seen for longest is forgotten first.
_COUNTED = 256


class Specializations(Generic[Made]):
    """At most `limit` executables, one a size, the least recently used dropped first. For use by several threads.

    `make(shapes)` compiles for the shapes of the inputs by name; it is called in a thread of its own, one at a time.
    Should it fail, there is one warning and no further attempt.
    """

    def __init__(self, limit: int, make: Callable[[Shapes], Made]) -> None:
        self.limit = limit
        self._make = make
        self._made: OrderedDict[Sizes, Made] = OrderedDict()
        self._runs: OrderedDict[Sizes, int] = OrderedDict()
        self._needed: dict[Sizes, int] = {}
        self._lock = own_lock(self, "_lock")
        self._worker: threading.Thread | None = None
        self._failure: Exception | None = None
        self._gave_up = False

    @property
    def sizes(self) -> list[Sizes]:
        """The sizes that have an executable of their own, the least recently used first."""
        with self._lock:
            return list(self._made)

    def find(self, sizes: Sizes, shapes: Callable[[], Shapes]) -> Made | None:
        """The executable for `sizes`, the values of the symbolic dimensions; None where the general one is to run.

        Counts the run, and begins to compile for a size that was run often enough. `shapes` returns the inputs' shapes.
        """
        with self._lock:
            found = self._made.get(sizes)
            if found is not None:
                self._made.move_to_end(sizes)
                return found
            failure, self._failure = self._failure, None
            if not self._gave_up and self._count(sizes) and not self._is_working():
                self._worker = threading.Thread(target=self._work, args=(sizes, dict(shapes())), daemon=True)
                self._worker.start()
        if failure is not None:
            text = f"a model could not be compiled for a size of its own and stays general: {failure}"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        return None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until nothing is being compiled, at most `timeout` seconds."""
        worker = self._worker
        if worker is not None:
            worker.join(timeout)

    def _is_working(self) -> bool:
        """True if a thread compiles. In a forked child there is none, whatever the parent had begun."""
        return self._worker is not None and (self._worker.ident is None or self._worker.is_alive())

    def _count(self, sizes: Sizes) -> bool:
        """Count a run; True if there were enough."""
        runs = self._runs[sizes] = self._runs.pop(sizes, 0) + 1
        if len(self._runs) > _COUNTED:
            forgotten, _ = self._runs.popitem(last=False)
            self._needed.pop(forgotten, None)
        return runs >= self._needed.get(sizes, HOT_RUNS)

    def _work(self, sizes: Sizes, shapes: Shapes) -> None:
        try:
            made = self._make(shapes)
        except Exception as error:  # whatever it is, the general executable goes on
            with self._lock:
                self._failure, self._gave_up, self._worker = error, True, None
            return
        with self._lock:
            self._made[sizes] = made
            self._worker = None
            if len(self._made) > self.limit:
                dropped, _ = self._made.popitem(last=False)
                self._needed[dropped] = 2 * self._needed.get(dropped, HOT_RUNS)
                self._runs[dropped] = 0
