"""The queue of one version of a model: bounded, emptied in batches by threads, or by the loop itself."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Sequence

from tilewright.serving.models.batches import Joined, Request
from tilewright.serving.models.errors import overloaded
from tilewright.serving.models.settings import ModelSettings
from tilewright.serving.models.statistics import Statistics


class Queue:
    """Requests that wait for the instances of a model. `put` and `close` are for the event loop alone.

    `quick` models run in the event loop: a handover to a thread and back would take longer than they do, and whatever
    came in one turn of the loop is a batch.
    """

    def __init__(self, instances: Sequence[Joined], settings: ModelSettings, most_rows: int, quick: bool) -> None:
        self.statistics = Statistics()
        self._settings, self._most_rows = settings, most_rows
        self._loop = asyncio.get_running_loop()
        self._unfinished, self._closed = 0, False
        self._drained = asyncio.Event()
        self._quick = instances[0] if quick else None
        self._ready: list[Request] = []
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._threads = 0 if quick else len(instances)
        for instance in instances[: self._threads]:
            threading.Thread(target=self._work, args=(instance,), name="tilewright-serving", daemon=True).start()

    @property
    def unfinished(self) -> int:
        """Requests that wait or run."""
        return self._unfinished

    def put(self, request: Request) -> None:
        """Have a request run, and `request.done` called. Raises `RequestError` where the queue is full."""
        if self._unfinished >= self._settings.queue:
            raise overloaded(f"{self._unfinished} requests wait for this model, which is its limit; try again later")
        self._unfinished += 1
        if self._quick is None:
            self._waiting.put(request)
        else:
            self._ready.append(request)
            if len(self._ready) == 1:
                self._begin_quick()

    async def close(self) -> None:
        """Take no more requests; return when those that are there have been answered."""
        if not self._closed:
            self._closed = True
            for _ in range(self._threads):
                self._waiting.put(None)
        if self._unfinished:
            await self._drained.wait()

    def _begin_quick(self) -> None:
        if self._settings.max_delay:
            self._loop.call_later(self._settings.max_delay, self._run_quick)
        else:
            self._loop.call_soon(self._run_quick)

    def _run_quick(self) -> None:
        assert self._quick is not None
        ready, self._ready = self._ready, []
        batch = Batch(self._most_rows)
        for request in ready:
            if not batch.add(request):
                self._quick.run(batch.requests)
                self._finish(batch.requests)
                batch = Batch(self._most_rows)
                batch.add(request)
        self._quick.run(batch.requests)
        self._finish(batch.requests)

    def _work(self, instance: Joined) -> None:
        """The work of a thread: batches, one after the other, until the queue is closed."""
        first: Request | None = None
        while first is not None or (first := self._waiting.get()) is not None:
            batch = Batch(self._most_rows)
            batch.add(first)
            first, ended = self._fill(batch)
            instance.run(batch.requests)
            self._loop.call_soon_threadsafe(self._finish, batch.requests)
            if ended and first is None:
                return

    def _fill(self, batch: Batch) -> tuple[Request | None, bool]:
        """Add what waits; the request that did not fit, and True where the queue was closed."""
        until = time.monotonic() + self._settings.max_delay
        while batch.room:
            try:
                left = until - time.monotonic()
                request = self._waiting.get(timeout=left) if left > 0 else self._waiting.get_nowait()
            except queue.Empty:
                break
            if request is None:
                return None, True
            if not batch.add(request):
                return request, False
        return None, False

    def _finish(self, requests: Sequence[Request]) -> None:
        self.statistics.add(requests)
        for request in requests:
            request.done()
        self._unfinished -= len(requests)
        if self._closed and not self._unfinished:
            self._drained.set()


class Batch:
    """Requests that can run as one, of at most `most` rows; with `most` 0 a batch is one request."""

    def __init__(self, most: int) -> None:
        self.requests: list[Request] = []
        self._rows, self._most = 0, most

    @property
    def room(self) -> bool:
        """True while one more row fits."""
        return self._rows < self._most

    def add(self, request: Request) -> bool:
        """True where the request belongs to the batch now."""
        if self.requests:
            fits = self._rows + request.rows <= self._most and request.shapes == self.requests[0].shapes
            if not fits:
                return False
        self.requests.append(request)
        self._rows += request.rows
        return True
